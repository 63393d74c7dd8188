// Measures beside the event loop what the workers of this node use.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/os/process/answering_child.hpp"
#include "ddprun/status/job_status.hpp"

namespace ddprun {

class UsageQuery : public std::enable_shared_from_this<UsageQuery> {
 public:
  // Called once: `status` with what could be measured within two seconds.
  using OnAnswer = std::function<void(NodeStatus)>;

  // Throws Error where there can be no child.
  UsageQuery(boost::asio::io_context& context, NodeStatus status, std::vector<std::vector<std::string>> gpus,
             OnAnswer on_answer);
  void start();
  void cancel();  // the answer is not wanted any more
  int child() const { return child_.pid(); }

 private:
  void read();
  void conclude();

  NodeStatus status_;
  OnAnswer on_answer_;
  AnsweringChild child_;
  boost::asio::posix::stream_descriptor descriptor_;
  boost::asio::steady_timer timer_;
  std::array<char, 4096> buffer_{};
  std::string received_;
};

}  // namespace ddprun
