#include "rendezvous/coordinator/coordinator_values.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/text.hpp"
#include "options/options.hpp"

namespace ddprun::rendezvous::told {

namespace {

using events::Event;
using events::EventKind;

Event event_of(EventKind kind, std::string what = {}) {
  Event event;
  event.kind = kind;
  event.what = std::move(what);
  return event;
}

Event event_of(EventKind kind, Attempt attempt, std::string what = {}) {
  Event event = event_of(kind, std::move(what));
  event.attempt = attempt.value;
  return event;
}

void set_ending(Event& event, const report::Failure& failure) {
  const ExitStatus& status = failure.status;
  if (status.kind == ExitStatus::Kind::signalled) event.signal = options::signal_name(status.value);
  if (status.kind == ExitStatus::Kind::exited) event.exit_code = status.value;
}

}  // namespace

Event joined(std::string host, int workers) {
  Event event = event_of(EventKind::joined);
  event.host = std::move(host);
  event.workers = workers;
  return event;
}

Event refused(const std::string& address, const std::string& why) {
  return event_of(EventKind::refused, printable(address) + ": " + why);
}

Event planned(int nodes, int workers) {
  Event event = event_of(EventKind::plan);
  event.nodes = nodes;
  event.workers = workers;
  return event;
}

Event attempt(Attempt attempt, int workers) {
  Event event = event_of(EventKind::attempt, attempt);
  event.workers = workers;
  return event;
}

Event stopping(Attempt attempt, const std::string& why) {
  return event_of(EventKind::stop, attempt, "stopping all workers: " + why);
}

Event lost(std::string host, std::string sentence) {
  Event event = event_of(EventKind::lost, std::move(sentence));
  event.host = std::move(host);
  return event;
}

Event hang(Attempt attempt, const status::Verdict& verdict) {
  Event event = event_of(EventKind::hang, attempt, status::describe(verdict));
  event.host = verdict.host;
  event.rank = verdict.rank;
  event.local_rank = verdict.local_rank;
  event.pid = verdict.pid;
  event.gpu = verdict.gpu;
  event.hint = verdict.hint;
  event.lines = split(trim(verdict.places), '\n');
  return event;
}

Event failed(const report::Failure& failure) {
  Event event = event_of(EventKind::failed, failure.attempt, report::describe(failure));
  event.host = failure.host;
  event.rank = failure.rank.value;
  event.local_rank = failure.local_rank.value;
  event.pid = failure.pid;
  event.gpu = failure.gpu;
  set_ending(event, failure);
  event.hint = failure.hint;
  event.lines = failure.message.empty() ? failure.last_lines : split(failure.message, '\n');
  return event;
}

Event restart(Attempt attempt, std::string what, const report::Failure* cause) {
  Event event = event_of(EventKind::restart, attempt, std::move(what));
  if (cause != nullptr) set_ending(event, *cause);
  return event;
}

Event asked(Attempt attempt, std::string what) {
  return event_of(EventKind::asked, attempt, std::move(what));
}

Event unfit(Attempt attempt, std::string host, std::string what, std::string hint) {
  Event event = event_of(EventKind::unfit, attempt, std::move(what));
  event.host = std::move(host);
  event.hint = std::move(hint);
  return event;
}

Event slow(Attempt attempt, const slow::SlowNotice& notice) {
  Event event = event_of(EventKind::slow, attempt, notice.what);
  event.host = notice.host;
  event.hint = notice.hint;
  if (!notice.worker) return event;
  event.rank = notice.worker->rank;
  event.local_rank = notice.worker->local_rank;
  event.pid = notice.worker->pid;
  event.gpu = notice.worker->gpu;
  return event;
}

Event waited(Attempt attempt, int rank, double seconds) {
  Event event = event_of(EventKind::waited, attempt,
                         fmt::format("the other ranks waited {:.1f} s for rank {}", seconds, rank));
  event.rank = rank;
  event.seconds = seconds;
  return event;
}

Event checkpoint(Attempt attempt, std::int64_t step, const std::string& folder) {
  Event event = event_of(EventKind::checkpoint, attempt,
                         folder.empty() ? fmt::format("step {} is complete in memory", step)
                                        : fmt::format("step {} is written to {}", step, folder));
  event.step = step;
  return event;
}

Event end(Attempt attempt, const report::Cause& cause) {
  Event event = event_of(EventKind::end, attempt, report::describe(cause));
  event.exit_code = report::exit_code_of(cause);
  if (cause.kind == report::Cause::Kind::worker_failed && !cause.detail.empty())
    event.what += "; not restarted: " + cause.detail;
  return event;
}

}  // namespace ddprun::rendezvous::told
