#include "agent/event_recorder.hpp"

#include <utility>

#include "options/options.hpp"
#include "os/clock.hpp"
#include "report/outcome.hpp"

namespace ddprun::agent {

EventRecorder::EventRecorder(const Plans& plans, const workers::WorkerGroup& workers, JobFiles& files,
                             std::function<void(events::Event)> send)
    : plans_(plans),
      workers_(workers),
      files_(files),
      send_(std::move(send)),
      metrics_(metrics_keeper(plans.node->host)) {}

// One text a line: several jobs may append to one file.
void EventRecorder::write(const events::Event& event) {
  files_.write(JobFiles::Kind::events, events::render_event(event));
  if (files_.wanted(JobFiles::Kind::metrics) && metrics_.note(event))
    files_.write(JobFiles::Kind::metrics, metrics_.render());
}

void EventRecorder::record(events::Event event) {
  if (!wanted()) return;
  if (event.unix_milliseconds == 0) event.unix_milliseconds = os::unix_milliseconds();
  if (event.host.empty()) event.host = plans_.node->host;
  if (plans_.node->rendezvous.role != plan::RendezvousRole::member) return write(event);
  send_(std::move(event));
}

void EventRecorder::record_job_begin() {
  events::Event event;
  event.kind = events::EventKind::begin;
  event.job = plans_.node->run_id.value;
  event.nodes = plans_.node->rendezvous.agents;
  record(std::move(event));
}

events::Event EventRecorder::event_of(events::EventKind kind, std::size_t worker) const {
  events::Event event;
  event.kind = kind;
  event.attempt = plans_.attempt->assignment.attempt.value;
  event.rank = plans_.attempt->assignment.workers[worker].rank.value;
  event.local_rank = plans_.attempt->assignment.workers[worker].local_rank.value;
  event.pid = workers_.pid(worker);
  event.gpu = plans_.attempt->planned[worker].device;
  return event;
}

void EventRecorder::record_worker(events::EventKind kind, std::size_t worker) {
  events::Event event = event_of(kind, worker);
  if (kind == events::EventKind::start) event.what = workers_.how_started(worker);
  record(std::move(event));
}

void EventRecorder::record_exit(std::size_t worker, const ExitStatus& status) {
  if (!wanted()) return;
  events::Event event = event_of(events::EventKind::exit, worker);
  report::Failure failure;
  failure.rank = plans_.attempt->assignment.workers[worker].rank;
  failure.host = plans_.node->host;
  failure.program = plans_.attempt->planned[worker].command.front();
  failure.status = status;
  event.what = report::describe(failure);
  if (status.kind == ExitStatus::Kind::exited) event.exit_code = status.value;
  if (status.kind == ExitStatus::Kind::signalled) event.signal = options::signal_name(status.value);
  record(std::move(event));
}

void EventRecorder::record_connections(std::size_t connections) {
  const bool tells =
      connections == 1 || connections == static_cast<std::size_t>(plans_.attempt->assignment.world_size);
  if (!tells || connections <= most_connections_) return;
  most_connections_ = connections;
  events::Event event;
  event.kind = events::EventKind::store;
  event.attempt = plans_.attempt->assignment.attempt.value;
  event.workers = static_cast<int>(connections);
  record(std::move(event));
}

}  // namespace ddprun::agent
