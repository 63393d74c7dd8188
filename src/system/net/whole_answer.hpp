// Reads what a child writes into its pipe, to the end, beside the event loop.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/duration.hpp"

namespace ddprun::net {

// Keeps itself alive while it works.
class WholeAnswer : public std::enable_shared_from_this<WholeAnswer> {
 public:
  // Handler called once, unless cancelled: with what was read by the end, at most a little more than `most`
  // bytes, or by the end of `limit`, if that came first.
  using OnRead = std::function<void(std::string text, bool timed_out)>;

  // Begins to read. `descriptor` stays its owner's, who keeps it until `on_read` is called or cancel() has
  // been.
  WholeAnswer(boost::asio::io_context& context, int descriptor, std::size_t most,
              std::optional<Milliseconds> limit, OnRead on_read);
  void start();
  void cancel();
  const std::string& text() const { return text_; }  // text read so far

 private:
  void read();
  void conclude(bool timed_out);

  std::size_t most_;
  std::optional<Milliseconds> limit_;
  OnRead on_read_;
  boost::asio::posix::stream_descriptor descriptor_;
  boost::asio::steady_timer timer_;
  std::array<char, 4096> buffer_{};
  std::string text_;
};

}  // namespace ddprun::net
