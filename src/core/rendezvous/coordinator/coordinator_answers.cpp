// Agents whose connection is there, but which do not answer: they are named, and lost once the others wait
// for nothing else.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun::rendezvous {

namespace {

allocation::Notice describe_silent(const std::string& name, const std::string& host, int pid,
                                   Milliseconds silence) {
  const std::string who = pid > 0 ? fmt::format(", pid {},", pid) : "";
  return {fmt::format("ddprun on {}{} has not answered for {}", name, who, describe_seconds(silence)),
          pid > 0
              ? fmt::format("`ps -o stat,wchan -p {0}` on {1} shows its state: T is stopped, and kill -CONT "
                            "{0} on {1} continues it; D waits for a file system or a driver",
                            pid, host)
              : ""};
}

}  // namespace

void Coordinator::note_heard(ConnectionId connection, TimePoint now) {
  if (!settings_.silence || connection == k_local_connection || !members_.here().contains(connection)) return;
  const auto silence = answers_.note_heard(connection, now);
  if (!silence) return;
  const AgentIndex agent = members_.here().at(connection);
  actions_.push_back(ShowNotice{
      {fmt::format("ddprun on {} answers again, after {}", name_of(agent), describe_seconds(*silence)), {}}});
}

void Coordinator::look_for_silent(TimePoint now) {
  if (state_ == State::finished || !answers_.begin_look(now)) return;
  for (const ConnectionId connection : answers_.asked())
    actions_.push_back(SendTo{connection, AliveQuestion{job_end_.grace}});
  for (const ConnectionId connection : answers_.asked()) {
    const auto found = members_.here().find(connection);
    const bool is_silent = found != members_.here().end() && answers_.is_silent(connection, now);
    if (!is_silent || state_ == State::finished) continue;
    const AgentIndex agent = found->second;
    const Milliseconds silence = answers_.silence(connection, now);
    if (answers_.takes_silence(connection))
      actions_.push_back(
          ShowNotice{describe_silent(name_of(agent), host_of(agent), announced(agent).pid, silence)});
    const bool waits = waits_for(agent, now);
    const Milliseconds waited = answers_.note_waiting(connection, waits, now), limit = *settings_.silence;
    if (waits && waited >= limit) {
      expel(connection, "ddprun there has not answered for " + describe_seconds(silence), now);
    } else if (waits) {
      answers_.look_at(now + limit - waited);
    }
  }
}

// All agents are told of it at once.
Coordinator::Actions Coordinator::on_grace(Milliseconds grace, TimePoint now) {
  job_end_.grace = grace;
  settings_.stop_timeout = std::max(settings_.stop_timeout, settings_.stop_timeout - settings_.grace + grace);
  settings_.grace = std::max(settings_.grace, grace);
  if (state_ == State::stopping && !checkpoints_.holds_end())
    state_deadline_ = stopping_since_ + settings_.stop_timeout;
  answers_.look_at(now);
  look_for_silent(now);
  return std::exchange(actions_, {});
}

// Reports whether the job waits for no agent but this one.
bool Coordinator::waits_for(AgentIndex agent, TimePoint now) const {
  if (state_ == State::probing) return at(agent).asked;
  if (state_ == State::stopping) return is_busy(agent) || is_looking(agent);
  if (state_ != State::running || !members_.takes_part(agent) || at(agent).succeeded) return false;
  const auto connection = [&](AgentIndex other) { return *members_.at(other).connection; };
  if (!answers_.has_been_heard_since(connection(agent), started_at_)) return true;  // it has not begun
  return std::ranges::all_of(members_.participants(), [&](AgentIndex other) {
    const bool is_over = !members_.is_here(other) || !members_.takes_part(other) || at(other).succeeded;
    return is_over || answers_.is_silent(connection(other), now);
  });
}

}  // namespace ddprun::rendezvous
