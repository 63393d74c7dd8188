#include "net/coordinator_silence.hpp"

#include <utility>

#include "net/timers.hpp"

namespace ddprun::net {

namespace {

constexpr Milliseconds k_own_sleep{5000};  // a timer that is later was not late because others were busy

}  // namespace

void CoordinatorSilence::end() {
  if (std::exchange(told_, false)) tell_(std::nullopt);
  wait();
}

void CoordinatorSilence::cancel() {
  here_.reset();
  timer_.cancel();
}

// While this process is stopped itself, nothing is waited for. What is told may end this.
void CoordinatorSilence::wait() {
  const TimePoint due = std::chrono::steady_clock::now() + rendezvous::MemberSession::k_silence;
  call_at(timer_, due, [this, due, here = std::weak_ptr(here_)] {
    if (here.expired()) return;
    const TimePoint now = std::chrono::steady_clock::now();
    wait();
    if (now > due + k_own_sleep) return;
    told_ = true;
    tell_(session_.silence(now));
  });
}

}  // namespace ddprun::net
