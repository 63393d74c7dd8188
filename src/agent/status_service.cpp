#include "agent/status_service.hpp"

#include <unistd.h>

#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "console/log.hpp"
#include "os/clock.hpp"
#include "os/status_socket.hpp"

namespace ddprun::agent {

void StatusService::serve(std::function<void()> asked) {
  server_.emplace(context_, os::status_socket_name(::getpid()),
                  net::StatusServer::Hooks{os::is_of_this_user, std::move(asked)});
}

void StatusService::show_this_host(const std::string& coordinator, bool ending) {
  measure([this, coordinator, ending](status::NodeStatus here) {
    status::JobStatus status;
    status.launch_id = plans_.attempt->assignment.launch_id;
    status.coordinator = coordinator.empty() ? "the coordinator's host" : coordinator;
    status.phase = ending ? "ending" : here.workers.empty() ? "waiting for the coordinator" : "running";
    status.attempt = plans_.attempt->assignment.attempt.value;
    status.max_restarts = plans_.node->options.max_restarts.value;
    status.nodes = plans_.node->rendezvous.agents;
    if (!here.workers.empty()) {
      status.nodes = plans_.attempt->assignment.node_count;
      status.workers = plans_.attempt->assignment.world_size;
    }
    status.here.push_back(std::move(here));
    show(std::move(status));
  });
}

void StatusService::show(status::JobStatus status) {
  status.job = plans_.node->run_id.value;
  status.program = join(plans_.node->options.command, " ");
  status.host = plans_.node->host;
  status.pid = static_cast<int>(::getpid());
  status.uptime = Milliseconds{os::unix_milliseconds() - began_};
  server_->answer(status::render_status(status));
}

// One measurement at a time serves all that ask meanwhile.
void StatusService::measure(std::function<void(status::NodeStatus)> done) {
  status::NodeStatus status = workers_.status();
  if (status.workers.empty()) return done(std::move(status));
  measured_for_.push_back(std::move(done));
  if (usage_) return;
  try {
    usage_ = std::make_unique<probes::UsageQuery>(context_, status, workers_.gpus(),
                                                  [this](const status::NodeStatus& measured) {
                                                    workers_.spare_no_more(usage_child_);
                                                    usage_.reset();
                                                    for (const auto& each : std::exchange(measured_for_, {}))
                                                      each(measured);
                                                  });
    usage_child_ = usage_->child();
    workers_.spare(usage_child_);
  } catch (const Error& error) {
    console::say_detail(error.what());
    for (const auto& each : std::exchange(measured_for_, {})) each(status);
  }
}

void StatusService::end() {
  server_.reset();
  usage_.reset();
}

}  // namespace ddprun::agent
