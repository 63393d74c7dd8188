// What a driver tells who asks by --status: the coordinator's shell about the whole job, another host's about
// the workers there.
#include <unistd.h>

#include <utility>

#include "agent/driver.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "console/log.hpp"
#include "os/status_socket.hpp"

namespace ddprun::agent {

void Driver::serve_status() {
  status_server_.emplace(context_, os::status_socket_name(::getpid()),
                         net::StatusServer::Hooks{os::is_of_this_user, [this] { on_status_asked(); }});
}

void Driver::on_status_asked() {
  if (coordinator_ != nullptr) return coordinator_->ask_status();
  measure_workers([this](status::NodeStatus here) {
    status::JobStatus status;
    status.launch_id = plan_->assignment.launch_id;
    status.coordinator =
        next_coordinator_.is_told() ? next_coordinator_.host() : node_->rendezvous.peers.front();
    if (status.coordinator.empty()) status.coordinator = "the coordinator's host";
    status.phase = life_.ending()         ? "ending"
                   : here.workers.empty() ? "waiting for the coordinator"
                                          : "running";
    status.attempt = plan_->assignment.attempt.value;
    status.max_restarts = node_->options.max_restarts.value;
    status.nodes = node_->rendezvous.agents;
    if (!here.workers.empty()) {
      status.nodes = plan_->assignment.node_count;
      status.workers = plan_->assignment.world_size;
    }
    status.here.push_back(std::move(here));
    show_job(std::move(status));
  });
}

void Driver::show_job(status::JobStatus status) {
  status.job = node_->run_id.value;
  status.program = ddprun::join(node_->options.command, " ");
  status.host = node_->host;
  status.pid = static_cast<int>(::getpid());
  status.uptime = Milliseconds{os::unix_milliseconds() - began_};
  status_server_->answer(status::render_status(status));
}

void Driver::handle(const rendezvous::StatusQuestion& question) {
  measure_workers([this, number = question.question](status::NodeStatus status) {
    if (life_.linked()) link_->send(rendezvous::StatusAnswer{number, std::move(status)});
  });
}

// One measurement at a time serves all that ask meanwhile.
void Driver::measure_workers(std::function<void(status::NodeStatus)> done) {
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

void Driver::end_status() {
  status_server_.reset();
  usage_.reset();
}

}  // namespace ddprun::agent
