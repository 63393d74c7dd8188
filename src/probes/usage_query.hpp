// Measures beside the event loop what the workers of this node use.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/whole_answer.hpp"
#include "os/capture/node_usage.hpp"
#include "os/process/answering_child.hpp"
#include "status/job_status.hpp"

namespace ddprun::probes {

class UsageQuery {
 public:
  // Called once: `status` with what could be measured within two seconds, or three with Depth::stacks.
  using OnAnswer = std::function<void(status::NodeStatus)>;

  // Started. Throws Error where there can be no child.
  UsageQuery(boost::asio::io_context& context, status::NodeStatus status, os::WorkerPlaces places,
             os::Depth depth, OnAnswer on_answer);
  ~UsageQuery() { answer_->cancel(); }  // it is not wanted any more
  UsageQuery(const UsageQuery&) = delete;
  UsageQuery& operator=(const UsageQuery&) = delete;
  int child() const { return child_.pid(); }

 private:
  os::AnsweringChild child_;
  std::shared_ptr<net::WholeAnswer> answer_;
};

}  // namespace ddprun::probes
