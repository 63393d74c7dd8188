#include "rendezvous/coordinator/coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>
#include <variant>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/launch_nodes.hpp"
#include "plan/network_order.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/coordinator/coordinator_values.hpp"
#include "rendezvous/coordinator/stage_sources.hpp"
#include "rendezvous/host_limits.hpp"
#include "rendezvous/missing_agents.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr std::chrono::seconds k_alone_for{5};
constexpr int k_probe_rounds = 3;

}  // namespace

Coordinator::Coordinator(CoordinatorSettings settings, TimePoint now)
    : settings_(std::move(settings)),
      members_(settings_.agents, settings_.elastic ? settings_.elastic->spares : 0, settings_.own,
               {settings_.by_network, settings_.domain_size, settings_.elastic ? settings_.elastic->least : 0,
                settings_.replace_after}),
      agents_(static_cast<std::size_t>(settings_.agents)),
      watch_(settings_.hang.slow),
      state_deadline_(now + settings_.join_timeout),
      alone_due_(now + k_alone_for),
      status_since_(now),
      status_due_(now + std::chrono::seconds(1)),
      checkpoints_(settings_.checkpoints, settings_.own),
      policy_(settings_.max_restarts, settings_.restarts, settings_.time_limit) {
  if (settings_.takeover) {
    takeover_.emplace();
    told_differences_ = true;
    state_deadline_ = now + longest_search(settings_.takeover->host_timeout);
  }
  if (settings_.cannot_start.empty()) return;
  state_ = State::finished;
  state_deadline_.reset();
  ended_with_ = failed_here(settings_.cannot_start);
}

Coordinator::Actions Coordinator::on_message(ConnectionId connection, const AgentMessage& message,
                                             TimePoint now) {
  note_heard(connection, now);
  switch (judge(message, members_.here().contains(connection), state_, attempt_)) {
    case Reception::taken:
      std::visit([&](const auto& content) { handle(connection, content, now); }, message);
      break;
    case Reception::late:
      break;
    case Reception::wrong:
      expel(connection, describe_wrong(message), now);
  }
  settle(now);
  return std::exchange(actions_, {});
}

Coordinator::Actions Coordinator::on_closed(ConnectionId connection, const std::string& why, TimePoint now,
                                            ConnectionEnd end) {
  std::erase_if(held_, [&](const HeldJoin& each) { return each.connection == connection; });
  const auto parted = parted_.extract(connection);
  if (parted && end == ConnectionEnd::ended)
    quorum_.note_ended(parted.mapped().first, parted.mapped().second);
  drop(connection, why, end, now);
  look_at_held(now);
  settle(now);
  return std::exchange(actions_, {});
}

void Coordinator::drop(ConnectionId connection, const std::string& why, ConnectionEnd end, TimePoint now) {
  const auto found = members_.here().find(connection);
  if (found == members_.here().end()) return;
  const AgentIndex agent = found->second;
  const std::string sentence = fmt::format("lost {}: {}", name_of(agent), why);
  if (end == ConnectionEnd::broken && may_run_workers(agent)) killed_at_ = now + k_killing;
  forget(agent, sentence, end == ConnectionEnd::ended ? Left::ended : Left::away, now);
}

void Coordinator::forget(AgentIndex agent, const std::string& sentence, Left how, TimePoint now) {
  watch_.drop(*members_.at(agent).connection);
  answers_.drop(*members_.at(agent).connection);
  members_.leave(agent, sentence);
  quorum_.note_left(agent, how == Left::ended);
  requests_.drop(agent);
  checkpoints_.forget(agent);
  lose(agent, sentence, now, how);
}

void Coordinator::expel(ConnectionId connection, const std::string& why, TimePoint now) {
  actions_.push_back(CloseConnection{connection, /*reset=*/true});
  drop(connection, why, ConnectionEnd::broken, now);
}

// Checks the rank: a failure of one that the agent does not run would be another host's in the report.
bool Coordinator::check_rank(ConnectionId connection, const report::Failure& failure, TimePoint now) {
  if (runs_rank(members_.here().at(connection), failure.rank)) return true;
  expel(connection,
        fmt::format("it reported a failure of rank {}, which it does not run", failure.rank.value), now);
  return false;
}

Coordinator::Actions Coordinator::on_refused(const std::string& address, const std::string& why,
                                             TimePoint now) {
  if (refused_.size() < k_max_refused_shown || refused_.contains(address)) {
    const bool news = std::exchange(refused_[address], why) != why;
    if (news) record(told::refused(address, why));
    status_stale_ |= news;
  }
  settle(now);
  return std::exchange(actions_, {});
}

Coordinator::Actions Coordinator::on_store_ready(Attempt attempt, int port, TimePoint now) {
  if (state_ != State::opening || waits_to_restart() || attempt != attempt_) return {};
  start_all(address_, port, now);
  settle(now);
  return std::exchange(actions_, {});
}

Coordinator::Actions Coordinator::on_store_failed(Attempt attempt, const std::string& why, TimePoint) {
  if (state_ != State::opening || waits_to_restart() || attempt != attempt_) return {};
  finish(failed_here(fmt::format("cannot open the store on {}: {}", host_of(settings_.own), why)));
  return std::exchange(actions_, {});
}

Coordinator::Actions Coordinator::on_time(TimePoint now) {
  if (state_deadline_ && now >= *state_deadline_) {
    if (takeover_)
      give_up_takeover();
    else if (state_ == State::gathering)
      any_failed_start() ? fail_start() : join_deadline_passed(now);
    if (state_ == State::probing) check_probes(now);
    if (state_ == State::stopping) {
      stop_deadline_passed(now);
    } else if (waits_to_restart()) {
      begin_attempt(now);
    }
  }
  if (last_call_ && now >= *last_call_ && !any_failed_start()) form_world(now);
  if (takeover_) check_takeover(now);
  for (const ClientVerdict& verdict : questions_.expire(now)) actions_.push_back(JudgeClient{verdict});
  carry_out(watch_.on_time(job_facts(), now), now);
  look_for_silent(now);
  look_at_held(now);
  tell_alone(now);
  settle(now);
  return std::exchange(actions_, {});
}

std::optional<TimePoint> Coordinator::deadline() const {
  std::optional<TimePoint> asked = questions_.deadline();
  const auto look = state_ == State::finished ? std::nullopt : answers_.deadline();
  if (look) asked = std::min(*look, asked.value_or(*look));
  if (const auto status = watch_.deadline()) asked = std::min(*status, asked.value_or(*status));
  if (const auto due = status_due()) asked = std::min(*due, asked.value_or(*due));
  if (const auto due = checkpoints_.due()) asked = std::min(*due, asked.value_or(*due));
  if (!held_.empty()) asked = std::min(held_.front().until, asked.value_or(held_.front().until));
  if (!state_deadline_) return asked;
  TimePoint soonest = std::min(*state_deadline_, asked.value_or(*state_deadline_));
  if (state_ == State::gathering && settings_.when_alone) soonest = std::min(soonest, alone_due_);
  if (last_call_) soonest = std::min(soonest, *last_call_);
  if (takeover_ && takeover_->due) soonest = std::min(soonest, *takeover_->due);
  return soonest;
}

// ---- gathering

void Coordinator::handle(ConnectionId connection, const Join& join, TimePoint now) {
  if (state_ == State::finished) {
    ++told_;
    // The names of hosts that were started by hand are unknown: each has a terminal of its own.
    const bool report_there = connection != k_local_connection && !settings_.cannot_start.empty() &&
                              !settings_.peers.empty() && settings_.peers.back().empty();
    actions_.push_back(SendTo{connection, Finish{ended_with_, {}, {}, report_there}});
    actions_.push_back(connection == k_local_connection ? CoordinatorAction(EndJob{ended_with_})
                                                        : CoordinatorAction(CloseConnection{connection}));
    return;
  }
  if (takeover_) return gather_survivor(connection, join, now);
  const std::string problem = disagreement(join);
  if (!problem.empty() && state_ != State::gathering) return refuse_late(connection, join);
  if (!problem.empty()) {
    const report::Cause cause =
        join.failure ? describe_failed_start({{printable(join.announcement.host), *join.failure}}, {})
                     : failed_here(problem);
    ++told_;
    actions_.push_back(SendTo{connection, Finish{cause, {}, {}, false}});
    actions_.push_back(CloseConnection{connection});
    return any_failed_start() ? fail_start() : end_with(cause, now);
  }
  if (state_ != State::gathering && settings_.elastic) return join_late(connection, join, now);
  if (comes_back(connection, join, now)) return;
  if (state_ == State::gathering && join.failure && does_without(connection, join, now)) return;
  const auto place = state_ == State::gathering ? members_.find_place(join.announcement) : std::nullopt;
  if (!place) return refuse(connection, describe_second(join, settings_.agents), k_only_once);
  if (place->moved_to) {
    members_.move(place->place, *place->moved_to);
    at(*place->moved_to) = std::move(at(place->place));
    checkpoints_.move(place->place, *place->moved_to);
  }
  enter(place->place, connection, join, now);
  status_stale_ = true;
  if (join.failure) note_failed_start(now);
  if (all_came()) return any_failed_start() ? fail_start() : form_world_again(now);
  begin_last_call(now);
}

void Coordinator::refuse(ConnectionId connection, std::string reason, std::string hint) {
  actions_.push_back(SendTo{connection, Refused{std::move(reason), std::move(hint)}});
  actions_.push_back(CloseConnection{connection});
}

// Refuses a late join: a second launch with the same name, or a host that was given up, is none of the
// running job's business.
void Coordinator::refuse_late(ConnectionId connection, const Join& join) {
  const auto& number = join.announcement.agent;
  const std::string as = number ? fmt::format(" as number {} of {}", number->value, join.agents) : "";
  const std::string reason =
      fmt::format("the job on {} has already started with {} ddprun processes; {} cannot join it{}",
                  host_of(settings_.own), settings_.agents, printable(join.announcement.host), as);
  refuse(connection, reason, "use a separate --rdzv-id or --master-port for each job");
}

void Coordinator::tell_alone(TimePoint now) {
  if (!settings_.when_alone || state_ != State::gathering || now < alone_due_) return;
  const allocation::Notice notice = *std::exchange(settings_.when_alone, std::nullopt);
  if (members_.here().size() == 1) actions_.push_back(ShowNotice{notice});
}

void Coordinator::form_world(TimePoint now) {
  last_call_.reset();
  choose_participants();
  std::vector<plan::Announcement> announcements = members_.announcements();
  const bool whole = announcements.size() == agents_.size() && !members_.is_ordered();
  try {
    plan::settle_tasks(announcements);
    world_ = plan::make_world_plan(announcements, whole ? plan::Gaps::refused : plan::Gaps::closed);
    const bool compare = settings_.nodes && !settings_.elastic;
    auto notice = compare ? plan::check_node_count(announcements, world_, *settings_.nodes) : std::nullopt;
    if (notice) actions_.push_back(ShowNotice{std::move(*notice)});
  } catch (const Error& error) {
    const std::string hint = error.hint().empty() ? "" : "; " + error.hint();
    return finish(failed_here(error.what() + hint));
  }
  record(told::planned(world_.assignments.empty() ? 0 : world_.assignments.front().node_count,
                       world_.world_size));
  if (!std::exchange(told_differences_, true)) tell_differences(announcements);
  find_address(now);
}

void Coordinator::tell_differences(const std::vector<plan::Announcement>& announcements) {
  if (auto notice = plan::find_unlike_python(announcements))
    actions_.push_back(ShowNotice{std::move(*notice)});
  // A single agent has told it itself.
  auto crowded = settings_.agents > 1 ? plan::find_crowded_hosts(announcements) : std::nullopt;
  if (crowded) actions_.push_back(ShowNotice{std::move(*crowded)});
  auto unordered = settings_.by_network ? plan::find_unordered(announcements) : std::nullopt;
  if (unordered) actions_.push_back(ShowNotice{std::move(*unordered)});
  for (allocation::Notice& notice : plan::find_unlike_gpus(announcements))
    actions_.push_back(ShowNotice{std::move(notice)});
}

void Coordinator::find_address(TimePoint now) {
  const std::string& named = settings_.named_address;
  const auto agreed = agreed_address(witnesses(), settings_.addresses);
  const bool provable = named.empty() || crosses_hosts(named);  // a name is for the workers to look up
  if (!provable || (agreed && (named.empty() || *agreed == plain_address(named)))) {
    address_ = provable ? *agreed : named;
    return open_store(now);
  }
  candidates_ = named.empty() ? addresses_to_probe(witnesses(), settings_.addresses)
                              : std::vector<std::string>{plain_address(named)};
  state_ = State::probing;
  probe_rounds_ = 0;
  if (candidates_.empty()) return check_probes(now);
  probe(now);
}

// Probes: each agent is asked about the addresses that it has not reached yet.
void Coordinator::probe(TimePoint now) {
  ++probe_rounds_;
  state_deadline_ = now + settings_.probe_timeout;
  for (const AgentIndex index : members_.participants()) {
    Agent& agent = at(index);
    if (is_beside(index)) agent.probed.emplace();
    std::vector<std::string> open = candidates_;
    if (agent.probed)
      std::erase_if(open, [&](const std::string& address) { return agent.has_reached(address); });
    agent.asked = !is_beside(index) && !open.empty();
    if (agent.asked) send(index, Probe{open, settings_.port});
  }
  answered_ = 0;
  if (all_answered()) check_probes(now);
}

bool Coordinator::all_answered() {
  return all_done(agents_.size(), answered_,
                  [this](AgentIndex agent) { return !at(agent).asked || !members_.is_here(agent); });
}

void Coordinator::handle(ConnectionId connection, const Probed& probed, TimePoint now) {
  Agent& agent = of(connection);
  agent.asked = false;
  if (!agent.probed) agent.probed.emplace();
  agent.probe_failures = probed.failures;
  agent.probed->insert(agent.probed->end(), probed.reachable.begin(), probed.reachable.end());
  if (all_answered()) check_probes(now);
}

// Checks the probes. An address that was not reached in time may be one of a host under load, so that one
// failure proves nothing.
void Coordinator::check_probes(TimePoint now) {
  if (const auto common = common_address(witnesses(), candidates_)) {
    address_ = *common;
    return open_store(now);
  }
  if (!candidates_.empty() && probe_rounds_ < k_probe_rounds) return probe(now);
  finish(failed_here(describe_no_common_address(host_of(settings_.own), witnesses(), candidates_) +
                     "; name one that all reach with --master-addr"));
}

AgentIndex Coordinator::owner_of_rank_zero() const {
  const auto& assignments = world_.assignments;
  const auto owner =
      std::find_if(assignments.begin(), assignments.end(), [](const plan::Assignment& assignment) {
        return std::any_of(assignment.workers.begin(), assignment.workers.end(),
                           [](const plan::RankAssignment& assigned) { return assigned.rank.value == 0; });
      });
  return members_.participants()[static_cast<std::size_t>(owner - assignments.begin())];
}

void Coordinator::start_all(const std::string& address, int port, TimePoint now) {
  state_ = State::running;
  started_at_ = now;
  progressed_ = false;
  connections_ = 0;
  succeeded_ = 0;
  record(told::attempt(attempt_, world_.world_size));
  job_end_.finished.clear();
  const auto places = store_places();
  const StageSources stage(members_, settings_.own);
  auto restores = checkpoints_.begin_attempt(members_, attempt_, now);
  for (const AgentIndex agent : members_.participants()) {
    plan::Assignment assignment = *share_of(agent);
    if (const auto found = places.find(agent); found != places.end()) assignment.store_places = found->second;
    assignment.attempt = attempt_;
    assignment.master_address = address;
    assignment.master_port = port;
    assignment.run_id = settings_.run_id;
    assignment.launch_id = settings_.launch_id;
    at(agent).succeeded = false;
    const Milliseconds pause =
        std::max(policy_.longest_delay(),
                 std::min(settings_.return_timeout.value_or(Milliseconds{0}), k_longest_start_pause));
    send(agent, Start{std::move(assignment), pause, stage.of(agent), std::move(restores[agent])});
  }
  if (job_end_.warning) send_all(Warn{attempt_, *job_end_.warning});
  answers_.look_at(now);  // an agent that answers has begun
}

void Coordinator::open_store(TimePoint now) {
  state_ = State::opening;
  state_deadline_.reset();
  // A worker that hosts the store elsewhere: its agent has kept ports for it since before it joined.
  const plan::Announcement& host = announced(owner_of_rank_zero());
  if (owner_of_rank_zero() != settings_.own && !host.store_ports.empty() && !host.addresses.empty()) {
    const auto turn = static_cast<std::size_t>(attempt_.value) % host.store_ports.size();
    return start_all(host.addresses.front(), host.store_ports[turn], now);
  }
  store_asked_ = true;
  OpenStore open{attempt_, address_, world_.world_size, {}};
  for (const AgentIndex agent : members_.participants()) {
    const auto& addresses = announced(agent).addresses;
    open.clients.insert(open.clients.end(), addresses.begin(), addresses.end());
  }
  actions_.push_back(std::move(open));
}

// ---- running and stopping

void Coordinator::handle(ConnectionId connection, const AttemptFailed& failed, TimePoint now) {
  if (!check_rank(connection, failed.failure, now)) return;
  if (state_ == State::running) {
    first_failure_ = failed.failure;
    failed_at_ = now;
    begin_stop({attempt_}, now);
  } else {
    report::Failure further = failed.failure;
    const bool same_wake_up = first_failure_ && now == failed_at_;
    if (same_wake_up && further.rank < first_failure_->rank) std::swap(further, *first_failure_);
    note_further(further);
  }
}

void Coordinator::handle(ConnectionId connection, const AttemptSucceeded& succeeded, TimePoint now) {
  if (!members_.takes_part(members_.here().at(connection)))
    return expel(connection, describe_wrong(AgentMessage{succeeded}), now);
  of(connection).succeeded = true;  // also while stopping: the stop found nothing to stop there
  if (state_ == State::running && all_succeeded()) finish({});
}

void Coordinator::handle(ConnectionId connection, const Stopped& stopped, TimePoint now) {
  if (!members_.takes_part(members_.here().at(connection)))
    return expel(connection, describe_wrong(AgentMessage{stopped}), now);
  for (const report::Failure& failure : stopped.failures) {
    if (!check_rank(connection, failure, now)) return;
    note_further(failure);
  }
  victims_.insert(victims_.end(), stopped.stopped.begin(), stopped.stopped.end());
  note_ended(members_.here().at(connection), stopped);
  handle(connection, CheckpointsHeld{stopped.checkpoints}, now);
  of(connection).stopped = true;
  progressed_ |= stopped.progressed;
  if (!let_go(connection, stopped, now)) check_stopped(now);
}

void Coordinator::handle(ConnectionId, const StopRequest& request, TimePoint now) {
  if (request.again) return checkpoints_.cut_short();
  checkpoints_.note_signal(now);
  end_with({report::Cause::Kind::stopped_by_signal,
            {},
            request.signal,
            printable(request.host),
            printable(request.sender)},
           now, request.whole_tree);
}

void Coordinator::begin_stop(Stop stop, TimePoint now) {
  state_ = State::stopping;
  state_deadline_ = now + settings_.stop_timeout;
  stopping_since_ = now;
  for (Agent& agent : agents_) agent.stopped = agent.looks = false;
  stopped_ = 0;
  record(told::stopping(attempt_, final_cause_     ? report::describe(*final_cause_)
                                  : first_failure_ ? report::describe(*first_failure_)
                                                   : changes_.front()));
  stop.again = !final_cause_ && (!first_failure_ || decide_restart().restart);
  if (!stop.again) checkpoints_.begin_end();
  if (first_failure_) stop.failure = report::without_words(*first_failure_);
  send_all(stop);
  if (stop.again && settings_.looks_at_spares) look_at_spares();
  check_stopped(now);
}

void Coordinator::lose(AgentIndex agent, const std::string& sentence, TimePoint now, Left how) {
  if (state_ == State::finished) return;
  record(told::lost(host_of(agent), sentence));
  if (state_ == State::gathering) {
    if (!enough_nodes()) last_call_.reset();
    status_stale_ = true;
    if (takeover_) check_takeover(now);
    return;
  }
  if (settings_.independent && state_ == State::running && agent != settings_.own) {
    // Expects nothing more of it; the programs there say what that means for them.
    at(agent).succeeded = true;
    if (all_succeeded()) finish({});
    return;
  }
  if (how != Left::told && is_outvoted(agent, sentence)) return;
  if (may_return(agent)) {
    changes_.push_back(sentence);
    if (state_ == State::running) return begin_stop({attempt_}, now);
    return state_ == State::stopping ? check_stopped(now) : restart_changed(now);
  }
  if (settings_.elastic && goes_on_without(agent, sentence, now)) return;
  const std::string detail = too_few() ? sentence + "; " + describe_too_few() : sentence;
  end_with({report::Cause::Kind::agent_lost, {}, 0, host_of(agent), detail}, now);
  if (state_ != State::stopping) return;
  const bool is_the_cause = final_cause_ && final_cause_->detail == detail;
  if (!is_the_cause && remarks_.size() < k_max_remarks) remarks_.push_back(detail);
  check_stopped(now);
}

}  // namespace ddprun::rendezvous
