#include "lifecycle/agent_lifecycle.hpp"

#include <fmt/format.h>

#include <csignal>

#include "base/error.hpp"
#include "options/options.hpp"

namespace ddprun::lifecycle {

using Actions = AgentLifecycle::Actions;

// ---- the coordinator

Actions AgentLifecycle::on_refused(std::string what, std::string hint) {
  Actions actions;
  if (failure_) {
    end_with_own_failure(actions);
    return actions;
  }
  actions.push_back(life::SayError{std::move(what), std::move(hint)});
  report::Cause cause;
  cause.kind = report::Cause::Kind::launcher_failed;
  end(cause, actions);
  return actions;
}

Actions AgentLifecycle::on_stop(Attempt attempt, int signal, bool whole_tree) {
  asked_to_stop_ = attempt;
  Actions actions{life::StopWorkers{signal, /*hurry=*/false, /*undecided=*/whole_tree, /*of_job=*/true}};
  if (whole_tree) actions.push_back(life::Judge{signal, SignalWay::coordinator, true});
  return actions;
}

Actions AgentLifecycle::on_finish(const report::Cause& cause, std::string report) {
  if (!believes(cause)) {
    return on_lost(fmt::format("the coordinator reported success before the workers on {} had ended", host_),
                   {});
  }
  if (!report.empty()) report_ = std::move(report);
  Actions actions;
  end(cause, actions);
  const bool others_go_on = limits_.others_go_on && cause.kind == report::Cause::Kind::agent_lost;
  if (others_go_on) actions.push_back(life::StopWorkers{SIGTERM, /*hurry=*/true});
  return actions;
}

Actions AgentLifecycle::on_lost(std::string what, std::string hint, bool may_rejoin) {
  link_lost_ = true;
  Actions actions{life::TakeOutputBack{}};
  if (ending_) return actions;
  if (stop_signal_) job_ends_ = {*stop_signal_, host_};
  rejoining_ = may_rejoin && !failure_ && !job_ends_;
  if (rejoining_) {
    actions.push_back(life::StopWorkers{SIGTERM, /*hurry=*/false, /*undecided=*/false, /*of_job=*/true});
    actions.push_back(life::StopWorkers{SIGTERM, /*hurry=*/true});
    return actions;
  }
  if (failure_) {
    end_with_own_failure(actions);
  } else if (job_ends_) {
    // The sender who asked all hosts to stop has killed the coordinator since: its loss is expected.
    end_by_signal(job_ends_->first, job_ends_->second, actions);
  } else {
    actions.push_back(life::SayError{std::move(what), std::move(hint)});
    report::Cause cause;
    cause.kind =
        joined_ || found_ || rejoined_ ? report::Cause::Kind::agent_lost : report::Cause::Kind::deadline;
    end(cause, actions);
    if (limits_.others_go_on) actions.push_back(life::StopWorkers{SIGTERM, /*hurry=*/true});
  }
  return actions;
}

// Reports its own failure if it has not reached the others: a person who types the same line on several hosts
// reads on each what is wrong with it.
Actions AgentLifecycle::on_not_heard() {
  Actions actions;
  if (!joined_) say_own_failure(actions);
  return actions;
}

// ---- signals

Actions AgentLifecycle::on_stop_signal(int signal, SignalWay way, bool maybe_tree, bool by_person,
                                       TimePoint now) {
  Actions actions;
  if (phase_ != Phase::taking_part) {  // only output is still to be written
    hurry(actions);
    return actions;
  }
  const bool first = !stop_signal_;
  if (first) {
    stop_signal_ = signal;
    last_stop_signal_ = now;
    actions.push_back(life::StopWorkers{signal, /*hurry=*/false, /*undecided=*/true});
    actions.push_back(life::TellFirstStop{});
  }
  if (first || signal != *stop_signal_ || way != SignalWay::own)
    actions.push_back(life::Judge{signal, way, maybe_tree});
  if (first || !by_person || now - last_stop_signal_ < limits_.same_signal) return actions;
  last_stop_signal_ = now;
  actions.push_back(life::Say{
      fmt::format("{} again on {}: killing the remaining processes", options::signal_name(signal), host_)});
  actions.push_back(life::StopWorkers{signal, /*hurry=*/true});
  if (joined_ && !link_lost_)
    actions.push_back(life::SendStopRequest{signal, /*whole_tree=*/false, /*again=*/true});
  return actions;
}

Actions AgentLifecycle::on_verdict(const SignalLedger::Verdict& verdict) {
  Actions actions;
  if (verdict.number == stop_signal_ && !stop_requested_)
    request_stop(verdict.number, verdict.whole_tree, actions);
  return actions;
}

Actions AgentLifecycle::on_front_end_lost(TimePoint now) {
  if (!ending_) {
    explained_ = true;
    leaves_alone_ = limits_.others_go_on && !coordinates_;
    return on_stop_signal(SIGTERM, SignalWay::front_end, false, false, now);
  }
  Actions actions;
  hurry(actions);
  return actions;
}

// Asks for the stop of all hosts; only of this one if the others do not know of it yet.
void AgentLifecycle::request_stop(int signal, bool whole_tree, Actions& actions) {
  stop_requested_ = true;
  if (!joined_ || link_lost_ || leaves_alone_) return end_by_signal(signal, host_, actions);
  actions.push_back(life::SendStopRequest{signal, whole_tree});
}

// ---- workers

// Requests the stop. The worker had the signal; those of other hosts get it from the coordinator.
Actions AgentLifecycle::on_request(int signal) {
  Actions actions{life::StopWorkers{signal}};
  request_stop(signal, false, actions);
  return actions;
}

Actions AgentLifecycle::on_workers(const Workers& workers) {
  Actions actions;
  answer_stop(workers, actions);
  rejoin(workers, actions);
  begin_leaving(workers, actions);
  return actions;
}

// Answers a stop, once, when nothing of the attempt is left and its failure, if any, has been reported.
void AgentLifecycle::answer_stop(const Workers& workers, Actions& actions) {
  if (!asked_to_stop_ || link_lost_) return;
  const bool lost = workers.stuck && !workers.traced;
  if (lost && !std::exchange(stuck_told_, true)) actions.push_back(life::SendStuck{*asked_to_stop_});
  if (!workers.idle || !workers.settled) return;
  actions.push_back(life::SendStopped{*std::exchange(asked_to_stop_, std::nullopt)});
}

void AgentLifecycle::rejoin(const Workers& workers, Actions& actions) {
  if (!rejoining_ || ending_) return;
  if (workers.stuck) {
    rejoining_ = false;
    actions.push_back(life::SayError{fmt::format("lost the coordinator, and {} cannot join another one: "
                                                 "SIGKILL has not ended its workers",
                                                 host_),
                                     {}});
    report::Cause cause;
    cause.kind = report::Cause::Kind::agent_lost;
    return end(cause, actions);
  }
  if (!workers.idle || !workers.settled) return;
  rejoining_ = link_lost_ = joined_ = found_ = false;
  rejoined_ = told_all_ = true;
  asked_to_stop_.reset();
  actions.push_back(life::Rejoin{});
}

// ---- the end

void AgentLifecycle::end(const report::Cause& cause, Actions& actions) {
  if (!ending_) ending_ = cause;
  actions.push_back(life::StopWorkers{SIGTERM, /*hurry=*/false, /*undecided=*/false, /*of_job=*/true});
}

void AgentLifecycle::end_by_signal(int signal, const std::string& host, Actions& actions) {
  report::Cause cause;
  cause.kind = report::Cause::Kind::stopped_by_signal;
  cause.signal = signal;
  cause.host = host;
  report_ = describe(cause);
  end(cause, actions);
}

// Ends with this agent's own failure: the others could not be told, or refused to hear it.
void AgentLifecycle::end_with_own_failure(Actions& actions) {
  say_own_failure(actions);
  report::Cause cause;
  cause.kind = report::Cause::Kind::launcher_failed;
  cause.exit_code = failure_->exit_code;
  end(cause, actions);
}

void AgentLifecycle::say_own_failure(Actions& actions) {
  if (!failure_ || std::exchange(failure_said_, true)) return;
  actions.push_back(life::SayError{failure_->what, failure_->hint});
}

void AgentLifecycle::begin_leaving(const Workers& workers, Actions& actions) {
  const bool nothing_to_wait_for = (workers.idle && workers.settled) || workers.stuck;
  if (!ending_ || phase_ != Phase::taking_part || !nothing_to_wait_for || !(told_all_ || link_lost_)) return;
  phase_ = Phase::reading;
  exit_code_ = exit_code_of(*ending_);
  if (stop_requested_ || ending_->kind == report::Cause::Kind::stopped_by_signal) hurried_ = true;
  if (workers.stuck) actions.push_back(life::AbandonWorkers{});
  actions.push_back(
      life::EndGathered{hurried_ ? limits_.hurried_write : limits_.gathered_patience, hurried_});
  actions.push_back(life::ReadOutput{});
}

void AgentLifecycle::hurry(Actions& actions) {
  if (phase_ == Phase::left) actions.push_back(life::GiveUpOutput{});
  if (std::exchange(hurried_, true) || phase_ == Phase::taking_part) return;
  actions.push_back(life::EndGathered{limits_.hurried_write, true});
  write(actions);
}

Actions AgentLifecycle::on_output_read() {
  Actions actions;
  if (phase_ == Phase::left) return actions;
  say_report(actions);
  phase_ = Phase::writing;
  write(actions);
  return actions;
}

void AgentLifecycle::write(Actions& actions) { actions.push_back(life::WriteOutput{write_limit()}); }

std::optional<Milliseconds> AgentLifecycle::write_limit() const {
  return hurried_ ? std::optional(limits_.hurried_write) : std::nullopt;
}

Actions AgentLifecycle::on_output_written() {
  Actions actions;
  leave(actions);
  return actions;
}

void AgentLifecycle::leave(Actions& actions) {
  if (phase_ == Phase::left) return;
  phase_ = Phase::left;
  say_report(actions);
  actions.push_back(life::Leave{write_limit()});
}

void AgentLifecycle::say_report(Actions& actions) {
  const bool stopped = ending_ && ending_->kind == report::Cause::Kind::stopped_by_signal;
  if (explained_ && stopped && report_ == describe(*ending_)) report_.clear();
  if (!report_.empty()) actions.push_back(life::SayError{std::exchange(report_, {}), {}});
}

// Ends the agent's part, since the events it was waiting for may never come now.
Actions AgentLifecycle::on_exception(std::string what) {
  Actions actions;
  if (phase_ == Phase::taking_part) {
    link_lost_ = true;
    report_ = std::move(what);
    report::Cause cause;
    cause.kind = report::Cause::Kind::launcher_failed;
    end(cause, actions);
    return actions;
  }
  actions.push_back(life::SayError{std::move(what), {}});
  note_loss();
  leave(actions);
  return actions;
}

void AgentLifecycle::note_loss() {
  if (exit_code_ == 0) exit_code_ = k_exit_own_failure;
}

}  // namespace ddprun::lifecycle
