// Serves torch's file timers: TORCHELASTIC_ENABLE_FILE_TIMER=1, as torchrun does.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "lifecycle/watchdog_timers.hpp"
#include "os/private_files.hpp"

namespace ddprun::workers {

class Watchdog {
 public:
  // Throws Error when there can be no pipe at `path`.
  Watchdog(boost::asio::io_context& context, const std::string& path,
           std::function<void(const lifecycle::WatchdogTimers::Expired&)> on_expired);

  const std::string& path() const { return pipe_.path(); }

 private:
  void read();
  void check();

  std::shared_ptr<int> alive_ = std::make_shared<int>();  // a handler may be called after the end
  os::NamedPipe pipe_;
  boost::asio::posix::stream_descriptor input_;
  boost::asio::steady_timer timer_;
  std::function<void(const lifecycle::WatchdogTimers::Expired&)> on_expired_;
  lifecycle::WatchdogTimers timers_;
  std::array<char, 4096> buffer_{};
};

}  // namespace ddprun::workers
