// End of a self-launch: the moment at which it is over, and its exit code.

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/error.hpp"
#include "selflaunch/self_launch.hpp"
#include "selflaunch/self_launch_text.hpp"

namespace ddprun::selflaunch {

void SelfLaunch::finish_when_over() {
  const bool none_to_start = started_ == remote_launchers_.size() || stopped_by_ || failure_code_;
  const bool nothing_left = none_to_start && ended_ == started_ && connected_ == 0;
  if (state_ != State::working || !(nothing_left || abandoned_)) return;
  state_ = State::draining;
  silence_due_.reset();
  giving_up_.reset();
  settling_.clear();
  without_agent_.clear();
  hurried_ = stopped_by_ || abandoned_;
  drain();
}

void SelfLaunch::drain() {
  actions_.push_back(
      selflaunch::Drain{hurried_ ? std::optional(settings_.limits.hurried_drain) : std::nullopt});
}

SelfLaunch::Actions SelfLaunch::on_drained() {
  if (state_ != State::draining) return {};
  state_ = State::left;
  if (auto sentence = describe_unknown_end()) actions_.push_back(*std::move(sentence));
  actions_.push_back(selflaunch::CountLosses{});
  return take();
}

SelfLaunch::Actions SelfLaunch::on_losses(const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences)
    actions_.push_back(selflaunch::Say{selflaunch::Say::Level::error, sentence});
  const bool lost = !sentences.empty() && exit_code() == 0;
  actions_.push_back(selflaunch::Leave{lost ? k_exit_own_failure : exit_code()});
  return take();
}

bool SelfLaunch::has_failed_agent() const {
  return std::ranges::any_of(told_, [](int code) { return code != 0; });
}

// Describes an end that no agent has reported. If the remote launcher ends with 0 whatever became of its
// task, silence is not success; nor is the loss of an agent without a word. An agent that is left reports its
// failure itself.
std::optional<selflaunch::Say> SelfLaunch::describe_unknown_end() const {
  if (failure_code_ || stopped_by_ || decisive_ || told_.size() == plan_.hosts.size()) return std::nullopt;
  const bool said = has_failed_agent();
  if (told_.empty() && lost_.empty() && exit_code() != 0) return say_no_agent_connected(plan_, exit_code());
  if (!lost_.empty() && !said) return say_lost_hosts(lost_);
  if (knows_by_remote_launchers() || said) return std::nullopt;
  return say_unreported(plan_, plan_.hosts.size() - told_.size());
}

int SelfLaunch::exit_code() const {
  if (failure_code_) return *failure_code_;
  if (decisive_) return *decisive_;
  for (const int code : told_) {
    if (code != 0) return code;
  }
  if (told_.size() == plan_.hosts.size()) return 0;
  if (stopped_by_) return 128 + *stopped_by_;
  if (!releasing_) {  // afterwards it may have ended because we made it
    for (const RemoteLauncher& remote_launcher : remote_launchers_) {
      if (remote_launcher.code.value_or(0) != 0) return *remote_launcher.code;
    }
  }
  return knows_by_remote_launchers() && lost_.empty() ? 0 : k_exit_own_failure;
}

// Reports whether the remote launchers pass the exit code; one that was abandoned has passed none.
bool SelfLaunch::knows_by_remote_launchers() const { return plan_.passes_exit_code && !abandoned_; }

// Stop signals and failures, and giving up on the remote launchers.

namespace {

constexpr rendezvous::lifeline::Signal k_explained_stop{SIGTERM, /*hurry=*/false, /*whole_tree=*/false,
                                                        /*explained=*/true};

}  // namespace

SelfLaunch::Actions SelfLaunch::on_signal(const OwnSignal& signal, TimePoint now) {
  if (is_stop_signal(signal.number)) {
    note_stop_signal(signal, now);
  } else if (signal.is_passed_on) {
    actions_.push_back(selflaunch::Judge{signal.number, signal.from_above});
  }
  return take();
}

SelfLaunch::Actions SelfLaunch::on_verdict(const lifecycle::SignalLedger::Verdict& verdict, TimePoint now) {
  const rendezvous::lifeline::Signal signal{verdict.number, /*hurry=*/false, verdict.whole_tree};
  if (is_stop_signal(verdict.number)) {
    stop(signal, now);
  } else if (connected_ > 0) {
    signal_agents(signal);
  } else if (verdict.pass_on) {
    signal_remote_launchers(verdict.number, /*only_unconnected=*/false);
  }
  return take();
}

bool SelfLaunch::is_stop_signal(int number) const {
  return std::find(settings_.stop_signals.begin(), settings_.stop_signals.end(), number) !=
         settings_.stop_signals.end();
}

void SelfLaunch::note_stop_signal(const OwnSignal& signal, TimePoint now) {
  if (state_ != State::working) {  // only output is still to be written
    if (hurried_) return;
    hurried_ = true;
    return drain();
  }
  const bool first = !stopped_by_;
  const bool soon = !first && now - last_stop_signal_ < settings_.limits.same_signal;
  const bool again = !first && !soon && signal.from_person;
  if (first) stopped_by_ = signal.number;
  if (first || again) last_stop_signal_ = now;
  if (again) return stop({signal.number, /*hurry=*/true, /*whole_tree=*/false}, now);
  if (first || signal.number != *stopped_by_)
    actions_.push_back(selflaunch::Judge{signal.number, signal.from_above});
}

void SelfLaunch::stop(const rendezvous::lifeline::Signal& signal, TimePoint now) {
  signal_agents(signal);
  signal_remote_launchers(SIGTERM, /*only_unconnected=*/true);
  const SelfLaunchLimits& limits = settings_.limits;
  const bool heard = !signal.hurry && connected_ > 0;
  give_up_after(heard ? settings_.shutdown_timeout + limits.stop_margin : limits.patience, limits.patience,
                now);
  finish_when_over();
}

SelfLaunch::Actions SelfLaunch::on_grace(Milliseconds grace, TimePoint now) {
  if (giving_up_ && giving_up_->next == Step::terminate && connected_ > 0)
    giving_up_->due = std::max(giving_up_->due, now + grace + settings_.limits.stop_margin);
  return take();
}

// Fails: one host cannot take part, and the others, which would wait for it, are stopped.
void SelfLaunch::fail(int code, TimePoint now) {
  if (failure_code_) return;
  failure_code_ = code;
  signal_agents(k_explained_stop);
  signal_remote_launchers(SIGTERM, /*only_unconnected=*/true);
  give_up_after(settings_.shutdown_timeout + settings_.limits.stop_margin, settings_.limits.patience, now);
}

// Stops an agent that has come while the others are being stopped.
void SelfLaunch::stop_late_agent() {
  if (stopped_by_) return signal_agents({*stopped_by_});
  if (failure_code_) signal_agents(k_explained_stop);
}

// Gives the remote launchers their time. Agents that never called back may still be at work: a firewall lets
// some agents do without a lifeline.
void SelfLaunch::release_remote_launchers(TimePoint now) {
  if (state_ != State::working || connected_ > 0) return;
  const SelfLaunchLimits& limits = settings_.limits;
  const bool all = decisive_ || told_.size() + lost_.size() >= plan_.hosts.size();
  if (all && !releasing_) {
    releasing_ = true;
    give_up_after(lost_.empty() ? limits.patience : limits.patience_after_loss, limits.mercy, now);
  } else if (!all && !stopped_by_ && !failure_code_) {
    give_up_after(settings_.shutdown_timeout + limits.stop_margin, limits.patience, now);
  }
  finish_when_over();
}

void SelfLaunch::give_up_after(Milliseconds patience, Milliseconds mercy, TimePoint now) {
  if (state_ == State::working) giving_up_ = {Step::terminate, now + patience, mercy};
}

// Takes the next step of giving up; the last one abandons the remote launchers that are left.
void SelfLaunch::take_step(TimePoint now, bool busy) {
  if (!giving_up_ || now < giving_up_->due) return;
  giving_up_->due = now + giving_up_->mercy;
  switch (giving_up_->next) {
    case Step::terminate:
      if (busy && releasing_ && !stopped_by_) return;
      giving_up_->next = Step::kill;
      return signal_remote_launchers(SIGTERM, /*only_unconnected=*/false);
    case Step::kill:
      giving_up_->next = Step::abandon;
      return signal_remote_launchers(SIGKILL, /*only_unconnected=*/false);
    case Step::abandon:
      giving_up_.reset();
      abandoned_ = true;
      return finish_when_over();
  }
}

void SelfLaunch::signal_agents(const rendezvous::lifeline::Signal& signal) {
  if (connected_ > 0) actions_.push_back(selflaunch::SignalAgents{signal});
}

void SelfLaunch::signal_remote_launchers(int number, bool only_unconnected) {
  for (std::size_t i = 0; i < started_; ++i) {
    const bool chosen = !only_unconnected || !remote_launchers_[i].connected;
    if (chosen && !remote_launchers_[i].code) actions_.push_back(selflaunch::SignalRemoteLauncher{i, number});
  }
}

}  // namespace ddprun::selflaunch
