// The command of --on-failure, on the host that reports.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "agent/plans.hpp"
#include "facts/snapshot.hpp"
#include "probes/child_query.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

inline constexpr Milliseconds k_on_failure_limit{20000};  // others wait for it at the job's end

class OnFailure {
 public:
  OnFailure(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot,
            workers::WorkerGroup& workers)
      : context_(context), plans_(plans), snapshot_(snapshot), workers_(workers) {}

  // Runs it beside the restart. `report`: its standard input, as of --report. One that still runs from the
  // failure before is ended.
  void attempt_failed(const std::string& report);
  // Runs it, and waits for its end.
  void job_ended(const std::string& report);

 private:
  std::string run(const std::string& event, const std::string& report) const;
  void end();

  boost::asio::io_context& context_;
  const Plans& plans_;
  const facts::Snapshot& snapshot_;
  workers::WorkerGroup& workers_;
  std::unique_ptr<probes::ChildQuery> query_;
};

}  // namespace ddprun::agent
