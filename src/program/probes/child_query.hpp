// One question that a child answers beside the event loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/duration.hpp"
#include "net/whole_answer.hpp"
#include "os/descriptors.hpp"
#include "os/process/helper_child.hpp"

namespace ddprun::probes {

class ChildQuery {
 public:
  // Handler called once with the child's answer within `limit`; empty: none. `late`: it may have more to say.
  using OnAnswer = std::function<void(const std::string& answer, bool late)>;

  // Answers of more than `most` bytes are cut off a little behind that.
  ChildQuery(boost::asio::io_context& context, os::AnsweringChild child, std::size_t most, Milliseconds limit,
             OnAnswer on_answer);
  ~ChildQuery() { answer_->cancel(); }  // answer is not wanted any more
  ChildQuery(const ChildQuery&) = delete;
  ChildQuery& operator=(const ChildQuery&) = delete;

  // Reads likewise, once it has answered, what it writes through another pipe while it continues.
  void read_more(os::Fd pipe, std::size_t most, Milliseconds limit, OnAnswer on_answer);
  // Ends that: what it says within `limit`, for which this blocks; on_answer is not called any more.
  struct Rest {
    std::string text;
    bool late;
  };
  Rest wait_for_more(std::size_t most, Milliseconds limit);

 private:
  void read(int descriptor, std::size_t most, Milliseconds limit, OnAnswer on_answer);

  boost::asio::io_context& context_;
  os::AnsweringChild child_;
  os::Fd more_;
  std::shared_ptr<net::WholeAnswer> answer_;
};

}  // namespace ddprun::probes
