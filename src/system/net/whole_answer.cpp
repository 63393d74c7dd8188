#include "net/whole_answer.hpp"

#include <utility>

#include "net/timers.hpp"

namespace ddprun::net {

using boost::system::error_code;

WholeAnswer::WholeAnswer(boost::asio::io_context& context, int descriptor, std::size_t most,
                         std::optional<Milliseconds> limit, OnRead on_read)
    : most_(most), limit_(limit), on_read_(std::move(on_read)), descriptor_(context), timer_(context) {
  error_code ignored;
  descriptor_.assign(descriptor, ignored);  // if invalid, the first read fails
}

void WholeAnswer::start() {
  if (limit_) {
    call_after(timer_, *limit_, [self = shared_from_this()] { self->conclude(true); });
  }
  read();
}

void WholeAnswer::cancel() {
  timer_.cancel();
  if (descriptor_.is_open()) descriptor_.release();
  on_read_ = nullptr;  // with what it keeps of the owner
}

void WholeAnswer::read() {
  descriptor_.async_read_some(boost::asio::buffer(buffer_),
                              [self = shared_from_this()](const error_code& error, std::size_t size) {
                                if (!self->on_read_) return;
                                self->text_.append(self->buffer_.data(), size);
                                if (error || self->text_.size() > self->most_) return self->conclude(false);
                                self->read();
                              });
}

void WholeAnswer::conclude(bool timed_out) {
  const OnRead on_read = std::exchange(on_read_, nullptr);
  cancel();
  if (on_read) on_read(std::move(text_), timed_out);
}

}  // namespace ddprun::net
