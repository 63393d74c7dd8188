// What an agent tells who asks by --status: the coordinator's shell about the whole job, another host's about
// the workers there.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "agent/plans.hpp"
#include "net/status_server.hpp"
#include "probes/usage_query.hpp"
#include "status/job_status.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

class StatusService {
 public:
  // `began`: when this agent did, Unix time in milliseconds.
  StatusService(boost::asio::io_context& context, const Plans& plans, workers::WorkerGroup& workers,
                std::int64_t began)
      : context_(context), plans_(plans), workers_(workers), began_(began) {}

  void serve(std::function<void()> asked);
  // What this host's workers use; `done` is called once, now or later.
  void measure(std::function<void(status::NodeStatus)> done);
  // Where the coordinator is another host: what is known here. `phase` is told where no worker runs.
  void show_this_host(const std::string& coordinator, bool ending);
  void show(status::JobStatus status);
  void end();

 private:
  boost::asio::io_context& context_;
  const Plans& plans_;
  workers::WorkerGroup& workers_;
  std::int64_t began_;
  std::optional<net::StatusServer> server_;
  std::unique_ptr<probes::UsageQuery> usage_;  // under way
  int usage_child_ = 0;
  std::vector<std::function<void(status::NodeStatus)>> measured_for_;
};

}  // namespace ddprun::agent
