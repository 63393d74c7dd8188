// The end of an attempt and of the job: its cause, then a restart or the last message to all.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <set>
#include <utility>

#include "rendezvous/codec.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/coordinator/coordinator_values.hpp"
#include "report/report.hpp"
#include "report/root_cause.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr std::size_t k_max_seen = 512;  // failures of one attempt that are not alike

// Returns the ranks that were running when the signal came, for the report.
std::vector<int> ranks_running(int world_size, const std::map<int, report::EarlyEnd>& finished,
                               const std::optional<report::Failure>& failure,
                               const std::vector<report::Failure>& others) {
  std::set<int> ended;
  for (const auto& [rank, end] : finished) ended.insert(rank);
  if (failure) ended.insert(failure->rank.value);
  for (const report::Failure& other : others) ended.insert(other.rank.value);
  std::vector<int> running;
  for (int rank = 0; rank < world_size; ++rank) {
    if (!ended.contains(rank)) running.push_back(rank);
  }
  return running;
}

}  // namespace

void Coordinator::check_stopped(TimePoint now) {
  if (checkpoints_.holds_end()) return;
  if (!all_done(agents_.size(), stopped_,
                [this](AgentIndex agent) { return !is_busy(agent) && !is_looking(agent); }))
    return;
  settle_cause();
  job_end_.decided_at = now;
  const bool signalled = final_cause_ && final_cause_->kind == report::Cause::Kind::stopped_by_signal;
  const bool succeeded = std::ranges::all_of(members_.participants(),  // a lost one among them has not
                                             [this](AgentIndex agent) { return at(agent).succeeded; });
  if ((signalled || requests_.any()) && succeeded) return finish({});
  if (signalled) victims_ = ranks_running(world_.world_size, job_end_.finished, first_failure_, others_);
  if (final_cause_ && first_failure_) final_cause_->failure = *first_failure_;
  if (final_cause_) return finish(*final_cause_);
  if (!changes_.empty()) return restart_changed(now);
  lifecycle::RestartDecision decision = decide_restart();
  if (decision.restart && late_cause_) return finish_instead();
  if (decision.restart) return restart(now);
  finish({report::Cause::Kind::worker_failed,
          *first_failure_,
          0,
          {},
          std::move(decision.why),
          std::move(decision.hint)});
}

lifecycle::RestartDecision Coordinator::decide_restart() const {
  lifecycle::RestartDecision decision = policy_.decide(attempt_end());
  return decision.restart && too_few() ? lifecycle::RestartDecision{false, {}, describe_too_few(), {}}
                                       : decision;
}

lifecycle::AttemptEnd Coordinator::attempt_end() const {
  const auto ran = std::chrono::floor<Milliseconds>(failed_at_ - started_at_);
  lifecycle::AttemptEnd end{*first_failure_, ran, progressed_};
  end.warned = job_end_.warning.has_value();
  if (job_end_.at) {
    const TimePoint now = std::max(failed_at_, job_end_.decided_at);
    end.left = std::chrono::floor<Milliseconds>(*job_end_.at - now);
  }
  return end;
}

// Notes the end of the job. Workers of later attempts are warned as they start.
Coordinator::Actions Coordinator::on_job_end(std::optional<TimePoint> at, std::optional<int> warning) {
  if (at) {
    job_end_.at = at;
    checkpoints_.note_job_end(*at);
  }
  if (warning) job_end_.warning = warning;
  if (warning && state_ == State::running) send_all(Warn{attempt_, *warning});
  return std::exchange(actions_, {});
}

// Ends the job with the late cause: a signal or a loss that came while the workers were being stopped, and
// would have changed nothing had the first failure been the cause.
void Coordinator::finish_instead() {
  std::erase(remarks_, late_cause_->detail);
  late_cause_->failure = *first_failure_;
  victims_.clear();
  finish(*late_cause_);
}

void Coordinator::restart(TimePoint now) {
  const report::Failure cause = *first_failure_;
  const Milliseconds delay = policy_.note_end(attempt_end()).delay;
  if (settings_.elastic) note_first_failure(cause);
  const std::vector<report::KilledRanks> killed = job_end_.killed;
  next_attempt();
  record(told::restart(attempt_, report::describe_restart(cause, delay), &cause));
  actions_.push_back(ShowRestart{cause, attempt_, policy_.used().used, settings_.max_restarts, delay});
  for (const report::KilledRanks& each : killed) actions_.push_back(ShowNotice{{report::describe(each), {}}});
  if (delay == Milliseconds{0}) return begin_attempt(now);
  tell_rosters();  // includes the restart that is used up now
  state_ = State::opening;
  state_deadline_ = now + delay;
}

void Coordinator::begin_attempt(TimePoint now) {
  if (members_.is_changed()) return form_world(now);
  begin_roll();
  open_store(now);
}

void Coordinator::next_attempt() {
  if (std::exchange(store_asked_, false)) actions_.push_back(CloseStore{attempt_});
  ++attempt_.value;
  first_failure_.reset();
  watch_.begin_attempt();
  requests_.begin_attempt();
  others_.clear();
  victims_.clear();
  job_end_.killed.clear();
  remarks_.clear();
}

// Ends the job at once, or after the workers have been stopped.
void Coordinator::end_with(report::Cause cause, TimePoint now, bool whole_tree) {
  // Should this coordinator be lost meanwhile, no other one starts the workers again.
  const bool asked = cause.kind == report::Cause::Kind::stopped_by_signal;
  if (state_ == State::stopping) {
    // Decides by what is known so far: until all have stopped, another failure may turn out to be the cause.
    const bool goes_on = (first_failure_ && decide_restart().restart) || !changes_.empty();
    std::optional<report::Cause>& ending = goes_on ? final_cause_ : late_cause_;
    if (!final_cause_ && !ending) ending = std::move(cause);
    if (asked) tell_rosters();
  } else if (state_ == State::running) {
    const int signal = cause.signal > 0 ? cause.signal : SIGTERM;
    final_cause_ = std::move(cause);
    if (asked) tell_rosters();
    begin_stop({attempt_, signal, whole_tree}, now);
  } else if (state_ != State::finished) {
    finish(cause);
  }
}

bool Coordinator::may_run_workers(AgentIndex agent) const {
  if (state_ == State::running) return members_.takes_part(agent) && !at(agent).succeeded;
  return state_ == State::stopping && is_busy(agent);
}

bool Coordinator::is_busy(AgentIndex agent) const {
  return members_.is_here(agent) && members_.takes_part(agent) && !at(agent).stopped;
}

// Expels the agent and continues with the others if the number of nodes may vary; else the job ends. The
// stuck workers cannot do harm: a process that SIGKILL has reached executes no more of its own code.
void Coordinator::handle(ConnectionId connection, const Stuck&, TimePoint now) {
  const AgentIndex agent = members_.here().at(connection);
  if (settings_.elastic && connection != k_local_connection)
    return expel(connection, "SIGKILL has not ended its workers", now);
  at(agent).stopped = true;
  lose(agent, fmt::format("SIGKILL has not ended the workers of {}", name_of(agent)), now);
}

void Coordinator::stop_deadline_passed(TimePoint now) {
  for (Agent& agent : agents_) agent.looks = false;  // a spare without a verdict is as good as before
  for (int index = 0; index < settings_.agents && state_ == State::stopping; ++index) {
    if (!is_busy({index})) continue;
    const ConnectionId connection = *members_.at({index}).connection;
    const bool answers = connection == k_local_connection || !settings_.silence ||
                         answers_.has_been_heard_since(connection, stopping_since_);
    if (!answers) {
      expel(connection,
            fmt::format("it did not stop its workers within {} and does not answer",
                        describe_duration(settings_.stop_timeout)),
            now);
      continue;
    }
    at({index}).stopped = true;
    lose({index},
         fmt::format("{} did not stop its workers within {}", name_of({index}),
                     describe_duration(settings_.stop_timeout)),
         now);
  }
  if (state_ == State::stopping) check_stopped(now);
}

void Coordinator::finish(const report::Cause& cause) {
  if (checkpoints_.hold(cause)) return hold_end();
  if (store_asked_) actions_.push_back(CloseStore{attempt_});
  state_ = State::finished;
  state_deadline_.reset();
  questions_ = {};
  ended_with_ = cause;
  record(told::end(attempt_, ended_with_));
  for (const auto& [connection, agent] : members_.here()) {
    ++told_;
    const bool here = connection == k_local_connection;
    actions_.push_back(
        here ? SendTo{connection,
                      Finish{cause, others_, remarks_, true, victims_, policy_.used(), {}, job_end_.killed}}
             : SendTo{connection, Finish{cause, {}, {}, false}});
  }
  for (const HeldJoin& each : std::exchange(held_, {})) handle(each.connection, each.join, {});
  actions_.push_back(EndJob{cause});
}

bool Coordinator::all_succeeded() {
  return all_done(agents_.size(), succeeded_,
                  [this](AgentIndex agent) { return at(agent).succeeded || !members_.takes_part(agent); });
}

void Coordinator::send_all(const CoordinatorMessage& message) {
  for (const AgentIndex agent : members_.participants()) {
    if (members_.is_here(agent) && members_.takes_part(agent)) send(agent, message);
  }
}

void Coordinator::send(AgentIndex agent, CoordinatorMessage message) {
  actions_.push_back(SendTo{*members_.at(agent).connection, std::move(message)});
}

void Coordinator::note_further(const report::Failure& failure) {
  if (others_.size() >= k_max_seen) others_ = report::fold_alike(std::move(others_));
  if (others_.size() < k_max_seen) others_.push_back(failure);
}

// The ranks of this agent that had ended before the stop, and those that it has killed.
void Coordinator::note_ended(AgentIndex agent, const Stopped& stopped) {
  for (std::size_t i = 0; i < stopped.finished.size(); ++i) {
    const int rank = stopped.finished[i], ago = i < stopped.finished_ago.size() ? stopped.finished_ago[i] : 0;
    job_end_.finished[rank] = {rank, host_of(agent), Milliseconds{std::max(ago, 0)}};
  }
  for (const report::KilledRanks& each : stopped.killed) {
    const bool own =
        std::ranges::all_of(each.ranks, [&](int rank) { return runs_rank(agent, GlobalRank{rank}); });
    if (own && job_end_.killed.size() < k_max_further_failures) job_end_.killed.push_back(each);
  }
}

// Settles the cause by all failures: each host sends its first one when it comes, and the others with
// Stopped.
void Coordinator::settle_cause() {
  if (!first_failure_) {  // the signal explains all other ends
    others_.clear();
    victims_.clear();
    return;
  }
  std::vector<report::Failure> seen{std::move(*first_failure_)};
  seen.insert(seen.end(), std::make_move_iterator(others_.begin()), std::make_move_iterator(others_.end()));
  report::RankedFailures ranked = report::rank_failures(std::move(seen), std::move(victims_));
  first_failure_ = std::move(ranked.cause);
  others_ = std::move(ranked.others);
  if (others_.size() > k_max_further_failures) others_.resize(k_max_further_failures);
  victims_ = final_cause_ ? std::vector<int>() : std::move(ranked.victims);
  std::vector<report::EarlyEnd> early;
  for (const auto& [rank, end] : job_end_.finished) early.push_back(end);
  report::explain_by_early_ends(*first_failure_, early);
  record(told::failed(*first_failure_));
}

}  // namespace ddprun::rendezvous
