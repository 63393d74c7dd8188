#include "workers/watchdog.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <chrono>
#include <utility>

#include "net/timers.hpp"
#include "os/descriptors.hpp"

namespace ddprun::workers {

namespace {

// The clock of the requests may be set; that shows at the next look.
constexpr std::chrono::duration<double> k_longest_wait{10};

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Watchdog::Watchdog(boost::asio::io_context& context, const std::string& path,
                   std::function<void(const lifecycle::WatchdogTimers::Expired&)> on_expired)
    : pipe_(path),
      input_(context, os::duplicate(pipe_.descriptor()).release()),
      timer_(context),
      on_expired_(std::move(on_expired)) {
  read();
}

void Watchdog::read() {
  input_.async_read_some(
      boost::asio::buffer(buffer_),
      [this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error, std::size_t size) {
        if (error || alive.expired()) return;
        timers_.feed({buffer_.data(), size});
        check();
        read();
      });
}

void Watchdog::check() {
  for (const auto& expired : timers_.take_expired(unix_seconds())) on_expired_(expired);
  const auto next = timers_.next();
  if (!next) return void(timer_.cancel());
  const std::chrono::duration<double> left(std::max(0.0, *next - unix_seconds()));
  net::call_after(timer_, std::chrono::ceil<std::chrono::milliseconds>(std::min(left, k_longest_wait)),
                  [this, alive = std::weak_ptr(alive_)] {
                    if (!alive.expired()) check();
                  });
}

}  // namespace ddprun::workers
