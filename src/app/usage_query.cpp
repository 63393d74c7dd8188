#include "usage_query.hpp"

#include <utility>

#include "ddprun/base/duration.hpp"
#include "ddprun/os/capture/node_usage.hpp"

namespace ddprun {

namespace {

constexpr Milliseconds k_limit{
    2000};  // below StatusRound's: without an answer the workers are told all the same

}  // namespace

UsageQuery::UsageQuery(boost::asio::io_context& context, NodeStatus status,
                       std::vector<std::vector<std::string>> gpus, OnAnswer on_answer)
    : status_(std::move(status)),
      on_answer_(std::move(on_answer)),
      child_(measure_node_in_child(status_, std::move(gpus))),
      descriptor_(context),
      timer_(context) {}

void UsageQuery::start() {
  boost::system::error_code ignored;
  descriptor_.assign(child_.descriptor(), ignored);
  timer_.expires_after(k_limit);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& stopped) {
    if (!stopped) self->conclude();
  });
  read();
}

void UsageQuery::cancel() {
  on_answer_ = nullptr;
  timer_.cancel();
  if (descriptor_.is_open()) descriptor_.release();  // it is the child's to close
  child_.end();
}

void UsageQuery::read() {
  descriptor_.async_read_some(
      boost::asio::buffer(buffer_),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t size) {
        if (!self->on_answer_) return;
        self->received_.append(self->buffer_.data(), size);
        if (error || self->received_.size() > k_max_node_status) return self->conclude();
        self->read();
      });
}

void UsageQuery::conclude() {
  const auto on_answer = std::exchange(on_answer_, nullptr);
  if (!on_answer) return;
  auto measured = parse_node_status(received_);
  cancel();
  on_answer(measured ? std::move(*measured) : status_);
}

}  // namespace ddprun
