// Ranks that hang: found by their agents, judged here by what all of them show.
#include <algorithm>

#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/coordinator/coordinator_events.hpp"

namespace ddprun::rendezvous {

void Coordinator::handle(ConnectionId connection, const Quiet& quiet, TimePoint now) {
  if (state_ != State::running) return;
  hangs_.note(members_.here().at(connection), quiet);
  if (!all_quiet() || !hangs_.takes_silence()) return;
  status_round_.want(StatusRound::Purpose::hang);
  ask(now);
}

// Reports whether all agents are quiet; one whose ranks have all ended has no sign to show.
bool Coordinator::all_quiet() const {
  const std::vector<AgentIndex> agents = members_.participants();
  const auto is_over = [this](AgentIndex agent) {
    return !members_.takes_part(agent) || at(agent).succeeded;
  };
  return std::ranges::all_of(agents,
                             [&](AgentIndex agent) { return is_over(agent) || hangs_.is_quiet(agent); }) &&
         !std::ranges::all_of(agents, is_over);
}

void Coordinator::handle(ConnectionId, const EarlyExit& early, TimePoint now) {
  if (state_ != State::running || !hangs_.takes(early)) return;
  status_round_.want(StatusRound::Purpose::early_exit);
  ask(now);
}

void Coordinator::judge_hang(const status::JobStatus& job, bool early, TimePoint now) {
  if (state_ != State::running || (early ? !hangs_.early_exit() : !all_quiet())) return;
  const std::string why = early ? hangs_.why_early() : hangs_.why_quiet();
  if (early && !hangs_.early_exit()->expired) {
    const auto notice = status::describe_early_exit(job, why);
    if (notice) actions_.push_back(ShowNotice{{notice->what, notice->hint}});
  } else if (const auto verdict = status::make_verdict(job, why)) {
    record(told::hang(attempt_, *verdict));
    const auto& action = settings_.hang.action;
    action && action->value == options::OnHang::report ? actions_.push_back(ShowHang{*verdict})
                                                       : fail_hung(*verdict, now);
  }
}

// Fails the attempt as if the rank that the others wait for had failed. If no restart is wanted, the cause is
// final.
void Coordinator::fail_hung(const status::Verdict& verdict, TimePoint now) {
  report::Failure failure;
  failure.attempt = attempt_;
  failure.rank = GlobalRank{verdict.rank};
  failure.local_rank = LocalRank{verdict.local_rank};
  failure.host = verdict.host;
  failure.pid = verdict.pid;
  failure.program = settings_.program;
  failure.status = {ExitStatus::Kind::hung, 0, StartStage::process, false, verdict.reason};
  failure.message = verdict.places;
  failure.hint = verdict.hint_after;
  failure.gpu = verdict.gpu;
  first_failure_ = failure;
  failed_at_ = now;
  const auto& action = settings_.hang.action;
  if (action && action->value == options::OnHang::stop)
    final_cause_ = report::Cause{report::Cause::Kind::worker_failed, failure, 0, {}, {}};
  begin_stop({attempt_}, now);
}

}  // namespace ddprun::rendezvous
