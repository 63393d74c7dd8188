// Loss of the coordinator: the rosters sent beforehand, and the start of the next coordinator.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/host_limits.hpp"

namespace ddprun::rendezvous {

// ---- before the loss

// Returns one agent of each host, by place; those that were set aside are the last.
std::vector<Successor> Coordinator::successors() const {
  std::vector<Successor> all;
  std::set<std::string> hosts;
  for (int turn = 0; turn < 2 * settings_.agents && all.size() < k_max_successors; ++turn) {
    const int place = turn % settings_.agents;
    if (AgentIndex{place} == settings_.own || !members_.is_here({place})) continue;
    if (members_.at({place}).set_aside != (turn >= settings_.agents)) continue;
    const plan::Announcement& from = announced({place});
    if (from.successor_port == 0 || !hosts.insert(to_lower(short_host_name(from.host))).second) continue;
    Successor& successor =
        all.emplace_back(Successor{{place}, host_of({place}), from.addresses, from.successor_port});
    if (successor.addresses.empty()) successor.addresses = {"127.0.0.1"};
    if (successor.addresses.size() > k_max_successor_addresses)
      successor.addresses.resize(k_max_successor_addresses);
  }
  return all;
}

Roster Coordinator::make_roster() const {
  Roster roster;
  roster.rolls = quorum_.rolls();
  roster.coordinator = settings_.own;
  roster.host = host_of(settings_.own);
  roster.successors = successors();
  roster.attempt = attempt_;
  roster.used_restarts = policy_.used().used;
  roster.launch_id = settings_.launch_id;
  if (final_cause_ && final_cause_->kind == report::Cause::Kind::stopped_by_signal)
    roster.ending = Ending{final_cause_->signal, final_cause_->host};
  return roster;
}

// Begins the roll of the agents that are here, which are those of the attempt that follows.
void Coordinator::begin_roll() {
  if (!settings_.succession) return;
  std::vector<AgentIndex> here;
  for (const auto& [connection, agent] : members_.here()) here.push_back(agent);
  std::ranges::sort(here);
  quorum_.begin(here);
  quorum_.note_told(settings_.own, quorum_.number());
  tell_rosters();
}

void Coordinator::tell_rosters() {
  if (!settings_.succession) return;
  const Roster roster = make_roster();
  for (const auto& [connection, agent] : members_.here()) tell_roster(agent, roster);
}

// Sends a roster if it fits its limits. Otherwise the agents keep the previous one, whose rolls count here
// too.
void Coordinator::tell_roster(AgentIndex agent, Roster roster) {
  const auto is_long = [](const Roll& roll) { return roll.agents.size() > k_max_place_ranges; };
  const bool fits = roster.rolls.size() <= k_max_rolls && std::ranges::none_of(roster.rolls, is_long);
  if (!settings_.succession || !fits || agent == settings_.own) return;
  roster.own = agent;
  roster.slot = members_.at(agent).slot;
  roster.counts = quorum_.is_counted(agent);
  roster.aside = members_.at(agent).set_aside;
  send(agent, std::move(roster));
}

void Coordinator::handle(ConnectionId connection, const RosterTaken& taken, TimePoint) {
  if (quorum_.note_told(members_.here().at(connection), taken.number)) tell_rosters();
}

// Ends the job if the others of a split network may continue, so that workers may not run here any longer.
// Reports whether it did.
bool Coordinator::is_outvoted(AgentIndex lost, const std::string& sentence) {
  if (!settings_.succession || quorum_.is_majority()) return false;
  checkpoints_.give_up();
  finish({report::Cause::Kind::agent_lost,
          {},
          0,
          host_of(lost),
          fmt::format("{}; {}, and the others may continue without them", sentence, describe_left())});
  return true;
}

std::string Coordinator::describe_left() const {
  const auto [here, all] = quorum_.count();
  const bool one_a_task = announced(settings_.own).fixed_rank.has_value();
  return fmt::format("{} of {} {} can be reached from here", here, all, one_a_task ? "ranks" : "nodes");
}

// ---- after the loss

void Coordinator::gather_survivor(ConnectionId connection, const Join& join, TimePoint now) {
  const bool was_here = join.survivor && join.survivor->roster.launch_id == settings_.launch_id &&
                        join.survivor->roster.own.value < settings_.agents;
  if (!was_here || join.failure || !disagreement(join).empty() ||
      members_.is_here(join.survivor->roster.own)) {
    return refuse(connection,
                  fmt::format("the job has lost its coordinator, and {} was not part of it before",
                              printable(join.announcement.host)),
                  "start ddprun there again once the job runs");
  }
  enter(join.survivor->roster.own, connection, join, now);
  quorum_.note_survivor(*join.survivor);
  takeover_->survivors.push_back(*join.survivor);
  check_takeover(now);
}

// Takes over once no worker of the last attempt can run any more, wherever it is (docs/decisions.md). An
// agent that has lost the coordinator stops its workers before it looks for another one, so none runs where
// all are here. The coordinator, if it lives, has lost this majority when its own limit ends, which is later
// than that of the others, and ends. Others that only it could reach have then lost it in their turn.
void Coordinator::check_takeover(TimePoint now) {
  Gathering& gathering = *takeover_;
  if (!quorum_.is_majority() || !members_.is_here(settings_.own)) {
    gathering.majority_at = gathering.due = std::nullopt;
    return;
  }
  if (!gathering.majority_at) gathering.majority_at = now;
  const AgentIndex lost = gathering.survivors.front().roster.coordinator;
  const Milliseconds limit = settings_.takeover->host_timeout;
  Milliseconds wait{0};
  if (!quorum_.is_complete()) {
    wait = quorum_.is_complete_without(lost) ? wait_for_coordinator(limit) : wait_for_others(limit);
  }
  // Agents that waited for a place count for no majority, but may be about to join.
  if (too_few()) wait = std::max(wait, wait_for_late(limit));
  gathering.due = *gathering.majority_at + wait;
  if (now >= *gathering.due) take_over(now);
}

// Begins as coordinator with the survivors. If two of them had the same slot, the later one keeps it.
void Coordinator::take_over(TimePoint now) {
  std::vector<Survivor> survivors = std::move(std::exchange(takeover_, std::nullopt)->survivors);
  state_deadline_.reset();
  const Roster own = survivors.front().roster;
  std::ranges::stable_sort(survivors, std::greater(),
                           [](const Survivor& each) { return each.roster.number(); });
  for (const Survivor& each : survivors) {
    if (each.roster.slot && members_.is_here(each.roster.own))
      members_.keep_slot(each.roster.own, *each.roster.slot);
    if (each.roster.aside && members_.is_here(each.roster.own)) members_.keep_aside(each.roster.own);
    attempt_ = std::max(attempt_, each.roster.attempt);
    policy_.note_used(each.roster.used_restarts);
  }
  if (own.coordinator.value < settings_.agents)
    members_.note_lost(own.coordinator, own.host, settings_.takeover->why);
  for (const int place : members_.missing()) members_.note_lost({place}, host_of({place}), {});
  if (too_few()) {
    return finish({report::Cause::Kind::agent_lost,
                   {},
                   0,
                   own.host,
                   settings_.takeover->why + "; " + describe_too_few()});
  }
  changes_ = {fmt::format("{}; {} coordinates now", settings_.takeover->why, host_of(settings_.own))};
  restart_changed(now);
}

void Coordinator::give_up_takeover() {
  const std::string host = takeover_->survivors.empty() ? "" : takeover_->survivors.front().roster.host;
  takeover_.reset();
  checkpoints_.give_up();
  finish({report::Cause::Kind::agent_lost,
          {},
          0,
          host,
          fmt::format("{}; {}, too few to continue without the others", settings_.takeover->why,
                      describe_left())});
}

}  // namespace ddprun::rendezvous
