#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "allocation/hostlist.hpp"
#include "base/text.hpp"
#include "plan/network_order.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/coordinator/coordinator_values.hpp"
#include "rendezvous/coordinator/stage_sources.hpp"
#include "rendezvous/host_limits.hpp"
#include "rendezvous/missing_agents.hpp"
#include "report/known_failures.hpp"

namespace ddprun::rendezvous {

// Membership in a job that continues without some of its agents: agents that come late, are lost, or wait.

namespace {

constexpr std::size_t k_named_changes = 3;
constexpr Milliseconds k_held_longer{5000};  // than the loss of a silent agent takes

// Names some of the changes: several nodes may have been lost, or have come, before all workers had stopped.
std::string name_some(std::vector<std::string> changes) {
  const std::size_t others = changes.size() - std::min(changes.size(), k_named_changes);
  changes.resize(changes.size() - others);
  return join(changes, "; ") + (others > 0 ? fmt::format("; {} more nodes have changed", others) : "");
}

// Tells the losses of all agents of a switch or NVLink domain as one.
std::vector<std::string> fold_lost_units(std::vector<std::string> changes, const Membership& members) {
  std::map<std::string, std::vector<const Member*>> units;
  for (int place = 0; place < members.places(); ++place) {
    const Member& each = members.at({place});
    const bool known = members.is_ordered() && each.announcement;
    const std::string unit = known ? plan::unit_of(each.announcement->network) : "";
    if (!unit.empty()) units[unit].push_back(&each);
  }
  for (const auto& [unit, all] : units) {
    const auto is_lost = [&](const Member* each) {
      return std::ranges::find(changes, each->lost) != changes.end();
    };
    if (all.size() < 2 || !std::ranges::all_of(all, is_lost)) continue;
    std::vector<std::string> hosts;
    for (const Member* each : all) {
      hosts.push_back(printable(each->announcement->host));
      std::erase(changes, each->lost);
    }
    const std::string& first = all.front()->lost;
    changes.insert(changes.begin(), fmt::format("lost all {} nodes of {} ({}){}", all.size(), printable(unit),
                                                allocation::compress_hostlist(hosts),
                                                first.substr(std::min(first.find(": "), first.size()))));
  }
  return changes;
}

// Sends an agent away that has joined to report why it cannot start.
void dismiss(ConnectionId connection, const Join& join, Coordinator::Actions& actions) {
  const FailedStart failed{printable(join.announcement.host), *join.failure};
  const report::Cause cause = describe_failed_start({failed}, {});
  actions.push_back(SendTo{connection, Finish{cause, {}, {}, false}});
  actions.push_back(CloseConnection{connection});
}

}  // namespace

bool Coordinator::enough_nodes() const {
  const int least = settings_.elastic ? settings_.elastic->least : settings_.agents;
  return members_.is_here(settings_.own) && members_.nodes_here() >= least;
}

std::string Coordinator::describe_too_few() const {
  const ElasticNodes& elastic = *settings_.elastic;
  const std::string left = count_of(members_.nodes_here(), "node") + " left";
  const char* const who = settings_.independent ? "its programs need" : "--nnodes asks for";
  if (elastic.spares == 0) return fmt::format("{}, and {} {} at least", left, who, elastic.least);
  return fmt::format("{}, and the job needs {}; no spare is left, as {} of {} nodes are lost: {}", left,
                     elastic.least, members_.lost_hosts().size(), settings_.agents,
                     join(members_.lost_hosts(), ", "));
}

void Coordinator::begin_last_call(TimePoint now) {
  const bool begins = settings_.elastic && settings_.elastic->last_call && !last_call_ && enough_nodes();
  if (begins) last_call_ = now + *settings_.elastic->last_call;
}

void Coordinator::choose_participants() {
  for (const Succession& each : members_.choose()) {
    const std::string before = host_of(each.before), after = host_of(each.after);
    const std::string text = members_.at(each.before).set_aside
                                 ? fmt::format("{} failed first in {}; {} replaces it", before,
                                               count_of(settings_.replace_after, "attempt"), after)
                                 : fmt::format("{} replaces {}", after, before);
    actions_.push_back(ShowNotice{{text, {}}});
  }
  begin_roll();
  for (const AgentIndex agent : members_.waiting()) stand_by(agent);
}

void Coordinator::stand_by(AgentIndex agent) {
  send(agent, Standby{StageSources(members_, settings_.own).of(agent)});
  if (!modules_.names.empty()) send(agent, modules_);
}

void Coordinator::handle(ConnectionId, const Modules& modules, TimePoint) {
  modules_ = modules;
  for (const AgentIndex agent : members_.waiting()) send(agent, modules_);
}

void Coordinator::restart_changed(TimePoint now) {
  const bool same_nodes = requests_.explains(changes_);
  const std::string why = name_some(fold_lost_units(std::exchange(changes_, {}), members_));
  next_attempt();
  if (settings_.return_timeout && !same_nodes) return await_return(why, now);
  record(told::restart(attempt_, why + "; starting all workers again"));
  const int agents = std::min(static_cast<int>(members_.here().size()), members_.slots());
  const bool one_a_task = announced(settings_.own).fixed_rank.has_value();
  actions_.push_back(
      ShowNotice{{fmt::format("{}; starting all workers again{} {} of {} {}", why, one_a_task ? "," : " on",
                              agents, members_.slots(), one_a_task ? "ranks" : "nodes"),
                  {}}});
  if (killed_at_ && now < *killed_at_) {
    state_ = State::opening;
    state_deadline_ = *killed_at_;
    return;
  }
  same_nodes ? begin_attempt(now) : form_world(now);
}

// Notes the first failure: a host whose workers fail first again and again may be the reason itself.
void Coordinator::note_first_failure(const report::Failure& cause) {
  const auto& all = members_.participants();
  const auto found =
      std::ranges::find_if(all, [&](AgentIndex agent) { return runs_rank(agent, cause.rank); });
  if (found != all.end()) members_.note_first_failure(*found, report::may_be_hardware(cause));
}

// ---- late joins, and those that cannot take part

// Lets the job start without the agent, before the first attempt. False if the others cannot.
bool Coordinator::does_without(ConnectionId connection, const Join& join, TimePoint now) {
  const plan::Announcement& announced = join.announcement;
  const bool may = settings_.elastic && announced.agent != settings_.own && !announced.fixed_rank;
  const int left = settings_.agents - static_cast<int>(without_.size()) - 1;
  if (!may || left < settings_.elastic->least) return false;
  dismiss(connection, join, actions_);
  without_.push_back({printable(announced.host), *join.failure});
  const report::Cause cause = describe_failed_start({without_.back()}, {});
  actions_.push_back(ShowNotice{{cause.detail + "; the job starts without it", {}}});
  if (all_came()) form_world(now);
  return true;
}

void Coordinator::join_late(ConnectionId connection, const Join& join, TimePoint now) {
  if (settings_.elastic->grow == options::Grow::never) {
    return refuse(connection,
                  fmt::format("the job on {} has already started and accepts no more nodes (--grow never); "
                              "{} cannot join it",
                              host_of(settings_.own), printable(join.announcement.host)),
                  "use a separate --rdzv-id or --master-port for each job");
  }
  if (join.failure) return dismiss(connection, join, actions_);
  const std::string host = printable(join.announcement.host);
  const auto place = members_.find_late_place(join.announcement);
  if (!place) {
    return refuse(connection,
                  fmt::format("the job already has all its {} nodes; {} cannot join", settings_.agents, host),
                  k_only_once);
  }
  if (const auto clash = members_.find_clash(*place, join.announcement))
    return refuse(connection, clash->what(), clash->hint());
  const std::vector<Successor> before = successors();
  enter(*place, connection, join, now);
  successors() == before ? tell_roster(*place, make_roster()) : tell_rosters();
  if (!members_.is_changed() || settings_.elastic->grow != options::Grow::now) return stand_by(*place);
  if (state_ == State::probing) return form_world(now);
  const bool runs = state_ == State::opening || state_ == State::running;
  if (!runs || waits_to_restart()) return;  // the attempt that follows has it
  changes_.push_back(fmt::format("{} has joined", host));
  if (state_ == State::opening) return restart_changed(now);
  begin_stop({attempt_}, now);
}

// ---- losses

// Lets the job continue without the agent. False if the job ends by its loss.
bool Coordinator::goes_on_without(AgentIndex agent, const std::string& sentence, TimePoint now) {
  if (members_.is_here(agent) || !enough_nodes()) return false;  // the agent lives, and may have workers
  const bool took_part = members_.takes_part(agent);
  if (!took_part && settings_.elastic->spares > 0)
    actions_.push_back(ShowNotice{{sentence + "; it was a spare", {}}});
  if (!took_part) tell_rosters();                                   // others might look for it
  if (!took_part && state_ == State::stopping) check_stopped(now);  // waits for its look no longer
  if (!took_part || (state_ == State::running && at(agent).succeeded)) return true;
  if (state_ == State::stopping && (final_cause_ || late_cause_)) return false;
  if (waits_to_restart()) {
    actions_.push_back(ShowNotice{{sentence + "; the workers start again without it", {}}});
    return true;
  }
  const bool known = std::ranges::find(changes_, sentence) != changes_.end();
  if (state_ != State::probing && !known) changes_.push_back(sentence);
  if (state_ == State::running)
    begin_stop({attempt_}, now);
  else if (state_ == State::stopping)
    check_stopped(now);
  else if (state_ == State::opening)
    restart_changed(now);
  else
    form_world(now);
  return true;
}

void Coordinator::join_deadline_passed(TimePoint now) {
  if (settings_.elastic && enough_nodes()) return form_world(now);
  const std::vector<int> absent = members_.missing();
  std::string text = fmt::format("gave up after {} waiting for {}", describe_duration(settings_.join_timeout),
                                 describe_missing(absent, settings_.agents, settings_.peers));
  std::vector<std::string> seen;
  for (const int agent : absent) {
    const std::string& error = members_.at({agent}).lost;
    if (!error.empty() && seen.size() < k_max_refused_shown) seen.push_back(error);
  }
  for (const auto& [address, why] : refused_) {
    seen.push_back(fmt::format("refused {}: {}", printable(address), why));
  }
  if (!seen.empty()) text += "; " + join(seen, "; ");
  finish({report::Cause::Kind::deadline, {}, 0, {}, text});
}

// ---- a fixed number of nodes, of which one comes back

// Reports whether the job waits for the lost agent: while it could be started again as after a failure.
bool Coordinator::may_return(AgentIndex agent) const {
  if (!settings_.return_timeout || agent == settings_.own || members_.is_here(agent)) return false;
  if (!changes_.empty() && !requests_.explains(changes_)) return true;  // waits for another one already
  const bool runs = (state_ == State::running && !at(agent).succeeded) || state_ == State::opening ||
                    (state_ == State::stopping && !final_cause_ && !late_cause_);
  return runs && policy_.used().used < settings_.max_restarts;
}

// Takes in a lost agent that is back before all others have stopped, or holds one whose place is still taken:
// a killed agent's reaper has its connection a moment longer, and a host that lost its power is noticed
// later. False if it is for others to decide.
bool Coordinator::comes_back(ConnectionId connection, const Join& join, TimePoint now) {
  const bool begun = state_ != State::gathering || attempt_.value > 0;
  const auto place = join.announcement.agent;
  if (!settings_.return_timeout || !begun || !place || join.failure) return false;
  const bool taken = members_.is_here(*place);
  if (!taken && (state_ == State::gathering || members_.find_clash(*place, join.announcement))) return false;
  if (!taken && state_ == State::stopping && !changes_.empty()) {
    enter(*place, connection, join, now);
  } else {
    held_.push_back({connection, join, now + settings_.silence.value_or(Milliseconds{0}) + k_held_longer});
  }
  return true;
}

// Takes in those whose place is free now, and refuses those who have waited for long.
void Coordinator::look_at_held(TimePoint now) {
  for (HeldJoin& each : std::exchange(held_, {})) {
    if (!members_.is_here(*each.join.announcement.agent)) {
      handle(each.connection, each.join, now);  // may hold it again
    } else if (now >= each.until) {
      refuse(each.connection, describe_second(each.join, settings_.agents), k_only_once);
    } else {
      held_.push_back(std::move(each));
    }
  }
}

// Gathers anew. The agents that are here wait as they do between two attempts.
void Coordinator::await_return(const std::string& why, TimePoint now) {
  policy_.note_used(policy_.used().used + 1);
  const std::string sentence =
      fmt::format("{}; waiting up to {} for it to return (restart {} of {})", why,
                  describe_duration(*settings_.return_timeout), policy_.used().used, settings_.max_restarts);
  record(told::restart(attempt_, sentence));
  actions_.push_back(ShowNotice{{sentence, "start ddprun there again with the same line"}});
  settings_.when_alone.reset();
  state_ = State::gathering;
  state_deadline_ = now + *settings_.return_timeout;
  if (all_came()) form_world_again(now);
}

// Waits, before a later attempt, until no worker of a lost agent runs any more.
void Coordinator::form_world_again(TimePoint now) {
  if (attempt_.value > 0)
    actions_.push_back(ShowNotice{{"all nodes are here again; starting all workers again", {}}});
  if (!killed_at_ || now >= *killed_at_) return form_world(now);
  state_ = State::opening;
  state_deadline_ = *killed_at_;
}

// Loss of the coordinator: the rosters sent beforehand, and the start of the next coordinator.

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
