#include "selflaunch/self_launch.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "report/outcome.hpp"
#include "selflaunch/self_launch_text.hpp"

namespace ddprun::selflaunch {

namespace {

constexpr int k_ssh_failure = 255;
// Exit codes of a shell and of ssh when the program could not be run there.
constexpr int k_no_start_codes[] = {k_exit_not_executable, k_exit_not_found, k_ssh_failure};

}  // namespace

SelfLaunch::SelfLaunch(const SelfLaunchPlan& plan, SelfLaunchSettings settings)
    : plan_(plan), settings_(std::move(settings)), remote_launchers_(plan.commands.size()) {}

SelfLaunch::Actions SelfLaunch::take() { return std::exchange(actions_, {}); }

SelfLaunch::Actions SelfLaunch::start(TimePoint now) {
  silence_due_ = now + settings_.limits.silence;
  start_some(now);
  return take();
}

SelfLaunch::Actions SelfLaunch::on_agent(const rendezvous::lifeline::Hello& hello, TimePoint now) {
  ++connected_;
  silence_due_.reset();
  actions_.push_back(say_connected(hello));
  const bool one_each = !plan_.commands.front().host.empty();
  const auto remote_launcher = one_each ? static_cast<std::size_t>(std::max(hello.place, 0)) : 0;
  if (remote_launcher < remote_launchers_.size()) {
    remote_launchers_[remote_launcher].connected = true;
    settle(remote_launcher, now);
  }
  stop_late_agent();
  return take();
}

SelfLaunch::Actions SelfLaunch::on_agent_ended(const rendezvous::lifeline::Hello& hello,
                                               const rendezvous::lifeline::Ended& ended, TimePoint now) {
  --connected_;
  actions_.push_back(say_ended(hello, ended.code));
  told_.push_back(ended.code);
  const bool decides = ended.coordinated || same_host(hello.host, plan_.hosts.front());
  if (plan_.least_hosts && decides && decisive_ != 0) decisive_ = ended.code;
  if (!ended.started && !does_without(hello.host)) fail(ended.code, now);
  release_remote_launchers(now);
  return take();
}

SelfLaunch::Actions SelfLaunch::on_agent_lost(const rendezvous::lifeline::Hello& hello,
                                              const std::string& why, TimePoint now) {
  --connected_;
  actions_.push_back(say_lost(hello, why));
  lost_.push_back(hello.host);
  release_remote_launchers(now);
  return take();
}

SelfLaunch::Actions SelfLaunch::on_remote_launcher_ended(std::size_t number, const ExitStatus& status,
                                                         const std::string& words, TimePoint now) {
  RemoteLauncher& remote_launcher = remote_launchers_[number];
  const int code = report::exit_code_of(status);
  remote_launcher.code = code;
  ++ended_;
  if (could_not_start(number, status) && !failure_code_) {
    actions_.push_back(say_failed_start(plan_, plan_.commands[number], code, words));
    if (!does_without(plan_.commands[number].host))
      fail(code == k_ssh_failure ? k_exit_own_failure : code, now);
  }
  settle(number, now);
  finish_when_over();
  if (state_ == State::working && !remote_launcher.connected)
    without_agent_.push_back({now + settings_.limits.common_end, number});
  return take();
}

// Continues without a host that cannot take part. False if the others would wait for it.
bool SelfLaunch::does_without(const std::string& host) {
  if (!plan_.least_hosts || host.empty() || same_host(host, plan_.hosts.front())) return false;
  without_.insert(host);
  return plan_.hosts.size() - without_.size() >= *plan_.least_hosts;
}

// Reports whether the code says that nothing was started. Other codes may be the job's, from an agent that
// could not reach us.
bool SelfLaunch::could_not_start(std::size_t number, const ExitStatus& status) const {
  const int code = report::exit_code_of(status);
  if (code == 0 || stopped_by_ || remote_launchers_[number].connected) return false;
  if (plan_.task != TaskWay::input || status.kind == ExitStatus::Kind::not_started) return true;
  return std::find(std::begin(k_no_start_codes), std::end(k_no_start_codes), code) !=
         std::end(k_no_start_codes);
}

SelfLaunch::Actions SelfLaunch::on_time(TimePoint now, bool busy) {
  settle_overdue(now);
  give_up_waiting_for_all(now);
  tell_of_silence(now);
  take_step(now, busy);
  return take();
}

std::optional<TimePoint> SelfLaunch::deadline() const {
  if (state_ != State::working) return std::nullopt;
  std::optional<TimePoint> first = silence_due_;
  const auto consider = [&](TimePoint time) { first = first ? std::min(*first, time) : time; };
  if (giving_up_) consider(giving_up_->due);
  if (!settling_.empty()) consider(settling_.front().at);
  if (!without_agent_.empty()) consider(without_agent_.front().at);
  return first;
}

// Starts the remote launchers that are still to come, as others settle.
void SelfLaunch::start_some(TimePoint now) {
  while (may_start() && started_ < remote_launchers_.size() &&
         unsettled_ < settings_.limits.starting_at_once) {
    const std::size_t next = started_++;
    remote_launchers_[next].started = true;
    if (!remote_launchers_[next].settled) ++unsettled_;
    actions_.push_back(selflaunch::Start{next});
    if (remote_launchers_.size() > settings_.limits.starting_at_once)
      settling_.push_back({now + settings_.limits.settling, next});
  }
}

void SelfLaunch::settle(std::size_t number, TimePoint now) {
  RemoteLauncher& remote_launcher = remote_launchers_[number];
  if (state_ != State::working || std::exchange(remote_launcher.settled, true)) return;
  if (remote_launcher.started) --unsettled_;
  start_some(now);
}

void SelfLaunch::settle_overdue(TimePoint now) {
  while (!settling_.empty() && settling_.front().at <= now) {
    const std::size_t number = settling_.front().remote_launcher;
    settling_.pop_front();
    settle(number, now);
  }
}

// Gives up on a ddprun that has not called back: either the job is over and no agent could reach us, or this
// host does not take part, and the others would wait for it.
void SelfLaunch::give_up_waiting_for_all(TimePoint now) {
  while (!without_agent_.empty() && without_agent_.front().at <= now) {
    const std::size_t number = without_agent_.front().remote_launcher;
    without_agent_.pop_front();
    if (failure_code_ || stopped_by_ || remote_launchers_[number].connected) continue;
    const int code = *remote_launchers_[number].code;
    const bool goes_on = does_without(plan_.commands[number].host);
    actions_.push_back(say_without_agent(plan_.commands[number], code, goes_on));
    if (!goes_on) fail(code == 0 || code == k_ssh_failure ? k_exit_own_failure : code, now);
    finish_when_over();
  }
}

void SelfLaunch::tell_of_silence(TimePoint now) {
  if (!silence_due_ || now < *silence_due_) return;
  silence_due_.reset();
  actions_.push_back(say_silence(plan_, settings_.limits.silence, settings_.port));
}

}  // namespace ddprun::selflaunch
