#include "streams/file_copy.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <utility>

namespace ddprun::streams {

using boost::system::error_code;

namespace {

constexpr Milliseconds k_copy_patience{5000};

}  // namespace

FileCopy::FileCopy(boost::asio::io_context& context, os::Fd writer, std::function<void(std::uint64_t)> lost)
    : writer_(context, writer.release()), lost_(std::move(lost)) {
  writer_.non_blocking(true);  // our end is ours alone
}

void FileCopy::add(std::string_view text) {
  if (held_.empty() && !skipping_) text.remove_prefix(write(text));
  if (text.empty()) return;
  keep(text);
  pass_on();
}

bool FileCopy::is_behind(TimePoint now) const {
  return held_.size() > k_limit / 2 && now - progress_ < k_copy_patience;
}

// Keeps text. Only whole lines are lost, except of those longer than the buffer.
void FileCopy::keep(std::string_view text) {
  if (skipping_ && held_.size() < k_limit / 2) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    skipping_ = text[end - 1] != '\n';
    lost_(end);
    text.remove_prefix(end);
  }
  std::size_t room = skipping_ ? 0 : k_limit - held_.size();
  if (room < text.size()) {
    room = text.substr(0, room).rfind('\n') + 1;  // npos + 1 is 0
    skipping_ = true;
  }
  held_ += text.substr(0, room);
  if (room < text.size()) lost_(text.size() - room);
}

std::size_t FileCopy::write(std::string_view text) {
  std::size_t taken = 0;
  error_code error;
  while (taken < text.size() && !error)
    taken += writer_.write_some(boost::asio::buffer(text.data() + taken, text.size() - taken), error);
  if (taken > 0) progress_ = std::chrono::steady_clock::now();
  if (!error || error == boost::asio::error::would_block) return taken;
  lost_(text.size() - taken);  // the log writer has been killed
  return text.size();
}

void FileCopy::pass_on() {
  if (waiting_) return;
  waiting_ = true;
  writer_.async_wait(boost::asio::posix::descriptor_base::wait_write,
                     [self = shared_from_this()](const error_code& error) {
                       self->waiting_ = false;
                       if (error) return;
                       self->held_.erase(0, self->write(self->held_));
                       if (!self->held_.empty()) self->pass_on();
                     });
}

}  // namespace ddprun::streams
