// What a driver has to tell --events: its own workers; and on the coordinator's host, all that comes from the
// others.
#include "agent/driver.hpp"
#include "options/options.hpp"
#include "os/clock.hpp"

namespace ddprun::agent {

void Driver::record(events::Event event) {
  if (!events_.wanted()) return;
  if (event.unix_milliseconds == 0) event.unix_milliseconds = os::unix_milliseconds();
  if (event.host.empty()) event.host = node_->host;
  if (node_->rendezvous.role != plan::RendezvousRole::member) return events_.write(event);
  if (link_ && life_.linked()) link_->send(rendezvous::Happened{std::move(event)});
}

void Driver::record_begin() {
  events::Event event;
  event.kind = events::EventKind::begin;
  event.job = node_->run_id.value;
  event.nodes = node_->rendezvous.agents;
  record(std::move(event));
}

events::Event Driver::event_of(events::EventKind kind, std::size_t worker) const {
  events::Event event;
  event.kind = kind;
  event.attempt = plan_->assignment.attempt.value;
  event.rank = plan_->assignment.workers[worker].rank.value;
  event.local_rank = plan_->assignment.workers[worker].local_rank.value;
  event.pid = workers_.pid(worker);
  event.gpu = plan_->planned[worker].device;
  return event;
}

void Driver::record_worker(events::EventKind kind, std::size_t worker) { record(event_of(kind, worker)); }

void Driver::record_exit(std::size_t worker, const ExitStatus& status) {
  if (!events_.wanted()) return;
  events::Event event = event_of(events::EventKind::exit, worker);
  supervise::Failure failure;
  failure.rank = plan_->assignment.workers[worker].rank;
  failure.host = node_->host;
  failure.program = plan_->planned[worker].command.front();
  failure.status = status;
  event.what = supervise::describe(failure);
  if (status.kind == ExitStatus::Kind::exited) event.exit_code = status.value;
  if (status.kind == ExitStatus::Kind::signalled) event.signal = options::signal_name(status.value);
  record(std::move(event));
}

// The store is served here, and does not know which worker a connection is from.
void Driver::record_connections(std::size_t connections) {
  if (coordinator_ != nullptr) coordinator_->note_connections(static_cast<int>(connections));
  const bool tells =
      connections == 1 || connections == static_cast<std::size_t>(plan_->assignment.world_size);
  if (!tells || connections <= most_connections_) return;
  most_connections_ = connections;
  events::Event event;
  event.kind = events::EventKind::store;
  event.attempt = plan_->assignment.attempt.value;
  event.workers = static_cast<int>(connections);
  record(std::move(event));
}

}  // namespace ddprun::agent
