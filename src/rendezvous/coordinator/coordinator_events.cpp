// What the coordinator has to tell --events. Without it these record nothing.
#include "base/text.hpp"
#include "options/options.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "supervise/report.hpp"

namespace ddprun::rendezvous {

namespace {

void set_ending(events::Event& event, const supervise::Failure& failure) {
  const ExitStatus& status = failure.status;
  if (status.kind == ExitStatus::Kind::signalled) event.signal = options::signal_name(status.value);
  if (status.kind == ExitStatus::Kind::exited) event.exit_code = status.value;
}

}  // namespace

// The driver knows the time, and this host's name where the event has no other.
void Coordinator::record(events::Event event) {
  if (settings_.record) actions_.push_back(Record{std::move(event)});
}

void Coordinator::handle(ConnectionId, const Happened& happened, TimePoint) { record(happened.event); }

void Coordinator::record_join(AgentIndex agent) {
  events::Event event;
  event.kind = events::EventKind::joined;
  event.host = host_of(agent);
  event.workers = announced(agent).workers;
  record(std::move(event));
}

void Coordinator::record_refusal(const std::string& address, const std::string& why) {
  events::Event event;
  event.kind = events::EventKind::refused;
  event.what = printable(address) + ": " + why;
  record(std::move(event));
}

void Coordinator::record_plan() {
  events::Event event;
  event.kind = events::EventKind::plan;
  event.nodes = world_.assignments.empty() ? 0 : world_.assignments.front().node_count;
  event.workers = world_.world_size;
  record(std::move(event));
}

void Coordinator::record_attempt() {
  events::Event event;
  event.kind = events::EventKind::attempt;
  event.attempt = attempt_.value;
  event.workers = world_.world_size;
  record(std::move(event));
}

void Coordinator::record_stop() {
  events::Event event;
  event.kind = events::EventKind::stop;
  event.attempt = attempt_.value;
  event.what = "stopping all workers: " + (final_cause_     ? supervise::describe(*final_cause_)
                                           : first_failure_ ? supervise::describe(*first_failure_)
                                                            : changes_.front());
  record(std::move(event));
}

void Coordinator::record_loss(AgentIndex agent, const std::string& sentence) {
  events::Event event;
  event.kind = events::EventKind::lost;
  event.host = host_of(agent);
  event.what = sentence;
  record(std::move(event));
}

void Coordinator::record_cause() {
  const supervise::Failure& failure = *first_failure_;
  events::Event event;
  event.kind = events::EventKind::failed;
  event.host = failure.host;
  event.attempt = failure.attempt.value;
  event.rank = failure.rank.value;
  event.local_rank = failure.local_rank.value;
  event.pid = failure.pid;
  event.gpu = failure.gpu;
  set_ending(event, failure);
  event.what = supervise::describe(failure);
  event.hint = failure.hint;
  event.lines = failure.message.empty() ? failure.last_lines : split(failure.message, '\n');
  record(std::move(event));
}

void Coordinator::record_restart(const std::string& what, const supervise::Failure* cause) {
  events::Event event;
  event.kind = events::EventKind::restart;
  event.attempt = attempt_.value;
  event.what = what;
  if (cause != nullptr) set_ending(event, *cause);
  record(std::move(event));
}

void Coordinator::record_end() {
  events::Event event;
  event.kind = events::EventKind::end;
  event.attempt = attempt_.value;
  event.exit_code = supervise::exit_code_of(ended_with_);
  event.what = supervise::describe(ended_with_);
  if (ended_with_.kind == supervise::Cause::Kind::worker_failed && !ended_with_.detail.empty())
    event.what += "; not restarted: " + ended_with_.detail;
  record(std::move(event));
}

}  // namespace ddprun::rendezvous
