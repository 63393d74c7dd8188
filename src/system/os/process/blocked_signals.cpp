#include "os/process/blocked_signals.hpp"

#include <cerrno>

namespace ddprun::os {

namespace {

sigset_t every_signal() {
  sigset_t signals;
  ::sigfillset(&signals);
  return signals;
}

sigset_t only(int signal) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, signal);
  return signals;
}

}  // namespace

BlockedSignals::BlockedSignals() : BlockedSignals(SIG_SETMASK, every_signal()) {}

BlockedSignals::BlockedSignals(int signal) : BlockedSignals(SIG_BLOCK, only(signal)) {}

BlockedSignals::BlockedSignals(int how, const sigset_t& signals)
    : error_(::sigprocmask(how, &signals, &before_) == 0 ? 0 : errno) {}

BlockedSignals::~BlockedSignals() {
  const int kept = errno;
  // A second time where it is refused: all would stay blocked, and ddprun deaf.
  if (error_ == 0 && ::sigprocmask(SIG_SETMASK, &before_, nullptr) != 0)
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  errno = kept;
}

}  // namespace ddprun::os
