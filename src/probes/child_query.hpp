// One question that a child answers beside the event loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/duration.hpp"
#include "net/whole_answer.hpp"
#include "os/process/answering_child.hpp"

namespace ddprun::probes {

class ChildQuery {
 public:
  // Called once: what the child has answered within `limit`; empty: nothing.
  using OnAnswer = std::function<void(const std::string& answer)>;

  // Answers of more than `most` bytes are cut off a little behind that.
  ChildQuery(boost::asio::io_context& context, os::AnsweringChild child, std::size_t most, Milliseconds limit,
             OnAnswer on_answer)
      : child_(std::move(child)),
        answer_(std::make_shared<net::WholeAnswer>(
            context, child_.descriptor(), most, limit,
            [on_answer = std::move(on_answer)](const std::string& answer, bool) { on_answer(answer); })) {
    answer_->start();
  }
  ~ChildQuery() { answer_->cancel(); }  // it is not wanted any more
  ChildQuery(const ChildQuery&) = delete;
  ChildQuery& operator=(const ChildQuery&) = delete;
  int child() const { return child_.pid(); }

 private:
  os::AnsweringChild child_;
  std::shared_ptr<net::WholeAnswer> answer_;
};

}  // namespace ddprun::probes
