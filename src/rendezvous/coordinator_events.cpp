// What the coordinator has to tell --events. Without it these record nothing.
#include "ddprun/base/text.hpp"
#include "ddprun/options/options.hpp"
#include "ddprun/rendezvous/coordinator.hpp"

namespace ddprun {

namespace {

void set_ending(Event& event, const Failure& failure) {
  const ExitStatus& status = failure.status;
  if (status.kind == ExitStatus::Kind::signalled) event.signal = signal_name(status.value);
  if (status.kind == ExitStatus::Kind::exited) event.exit_code = status.value;
}

}  // namespace

// The driver knows the time, and this host's name where the event has no other.
void Coordinator::record(Event event) {
  if (settings_.record) actions_.push_back(Record{std::move(event)});
}

void Coordinator::handle(ConnectionId, const Happened& happened, TimePoint) { record(happened.event); }

void Coordinator::record_join(AgentIndex agent) {
  Event event;
  event.kind = EventKind::joined;
  event.host = host_of(agent);
  event.workers = at(agent).announcement->workers;
  record(std::move(event));
}

void Coordinator::record_refusal(const std::string& address, const std::string& why) {
  Event event;
  event.kind = EventKind::refused;
  event.what = printable(address) + ": " + why;
  record(std::move(event));
}

void Coordinator::record_plan() {
  Event event;
  event.kind = EventKind::plan;
  event.nodes = world_.assignments.empty() ? 0 : world_.assignments.front().node_count;
  event.workers = world_.world_size;
  record(std::move(event));
}

void Coordinator::record_attempt() {
  Event event;
  event.kind = EventKind::attempt;
  event.attempt = attempt_.value;
  event.workers = world_.world_size;
  record(std::move(event));
}

void Coordinator::record_stop() {
  Event event;
  event.kind = EventKind::stop;
  event.attempt = attempt_.value;
  event.what = "stopping all workers: " + (final_cause_     ? describe(*final_cause_)
                                           : first_failure_ ? describe(*first_failure_)
                                                            : "");
  record(std::move(event));
}

void Coordinator::record_loss(AgentIndex agent, const std::string& sentence) {
  Event event;
  event.kind = EventKind::lost;
  event.host = host_of(agent);
  event.what = sentence;
  record(std::move(event));
}

void Coordinator::record_cause() {
  const Failure& failure = *first_failure_;
  Event event;
  event.kind = EventKind::failed;
  event.host = failure.host;
  event.attempt = failure.attempt.value;
  event.rank = failure.rank.value;
  event.local_rank = failure.local_rank.value;
  event.pid = failure.pid;
  event.gpu = failure.gpu;
  set_ending(event, failure);
  event.what = describe(failure);
  event.hint = failure.hint;
  event.lines = failure.message.empty() ? failure.last_lines : split(failure.message, '\n');
  record(std::move(event));
}

void Coordinator::record_restart() {
  Event event;
  event.kind = EventKind::restart;
  event.attempt = attempt_.value;
  event.what = describe(*first_failure_) + "; starting all workers again";
  set_ending(event, *first_failure_);
  record(std::move(event));
}

void Coordinator::record_end() {
  Event event;
  event.kind = EventKind::end;
  event.attempt = attempt_.value;
  event.exit_code = exit_code_of(ended_with_);
  event.what = describe(ended_with_);
  record(std::move(event));
}

}  // namespace ddprun
