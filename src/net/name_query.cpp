#include "name_query.hpp"

#include <fmt/format.h>

#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

constexpr std::size_t k_max_answer = 4096;
constexpr std::string_view k_error = "error: ";

}  // namespace

NameQuery::NameQuery(boost::asio::io_context& context, NameLookup lookup, Milliseconds limit,
                     OnAnswer on_answer)
    : lookup_(std::move(lookup)),
      limit_(limit),
      on_answer_(std::move(on_answer)),
      descriptor_(context),
      timer_(context) {}

void NameQuery::start() {
  boost::system::error_code ignored;
  descriptor_.assign(lookup_.descriptor, ignored);
  timer_.expires_after(limit_);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& stopped) {
    if (stopped) return;
    self->answer({},
                 fmt::format("no answer from the name service within {}", describe_duration(self->limit_)));
  });
  read();
}

void NameQuery::cancel() {
  on_answer_ = nullptr;
  timer_.cancel();
  if (descriptor_.is_open()) descriptor_.release();  // it is the owner's to close
  lookup_.owner.reset();
}

void NameQuery::read() {
  descriptor_.async_read_some(
      boost::asio::buffer(buffer_),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t size) {
        if (!self->on_answer_) return;
        self->received_.append(self->buffer_.data(), size);
        if (error || self->received_.size() > k_max_answer) return self->conclude();
        self->read();
      });
}

void NameQuery::conclude() {
  if (received_.starts_with(k_error)) {
    return answer({}, printable(trim(std::string_view(received_).substr(k_error.size()))));
  }
  std::vector<std::string> addresses = split_words(received_);
  const bool none = addresses.empty();
  answer(std::move(addresses), none ? "the name service gave no address" : "");
}

void NameQuery::answer(std::vector<std::string> addresses, std::string error) {
  const auto on_answer = std::exchange(on_answer_, nullptr);
  cancel();
  if (on_answer) on_answer(std::move(addresses), std::move(error));
}

}  // namespace ddprun
