// End of a self-launch: the moment at which it is over, and its exit code.
#include <algorithm>
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

}  // namespace ddprun::selflaunch
