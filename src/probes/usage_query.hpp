// Measures beside the event loop what the workers of this node use, and where they are.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/whole_answer.hpp"
#include "os/capture/node_usage.hpp"
#include "os/fd.hpp"
#include "os/process/answering_child.hpp"
#include "status/job_status.hpp"

namespace ddprun::probes {

class UsageQuery {
 public:
  // Called once: `status` with what could be measured within two seconds, or three with Depth::stacks.
  using OnAnswer = std::function<void(status::NodeStatus)>;
  // Called once after that where writes(), when the records are written: empty, or which file could not be,
  // and why.
  using OnWritten = std::function<void(std::string problem)>;

  // Started. Throws Error where there can be no child.
  UsageQuery(boost::asio::io_context& context, status::NodeStatus status, os::WorkerPlaces places,
             os::Depth depth, OnAnswer on_answer, OnWritten on_written);
  ~UsageQuery();  // it is not wanted any more
  UsageQuery(const UsageQuery&) = delete;
  UsageQuery& operator=(const UsageQuery&) = delete;
  int child() const { return child_.pid(); }
  // Whether records are left to be written, after the answer.
  bool writes() const { return writes_; }
  // Waits until the records are written, `limit` at most.
  void wait(Milliseconds limit) const;

 private:
  void watch_records();

  bool writes_;
  boost::asio::io_context& context_;
  os::Fd problem_;
  os::AnsweringChild child_;
  OnWritten on_written_;
  std::shared_ptr<net::WholeAnswer> answer_, written_;
};

}  // namespace ddprun::probes
