#include "os/process/blocked_signals.hpp"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
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

namespace {

// Parts of what waitid() reports of a stopped tracee: a signal, and above it the event if no signal waits.
constexpr int number_of(int status) { return status & 0xff; }
constexpr int event_of(int status) { return status >> 8; }

bool stops_a_group(int number) {
  return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

}  // namespace

bool hold_signals(int child) { return ::ptrace(PTRACE_SEIZE, child, nullptr, nullptr) == 0; }

std::optional<int> next_held_signal(int child) {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED | WNOHANG) != 0 || info.si_pid == 0)
      return std::nullopt;
    const int number = number_of(info.si_status);
    if (event_of(info.si_status) == 0) return number;
    // The child is stopped as if it were not traced, until SIGCONT.
    ::ptrace(stops_a_group(number) ? PTRACE_LISTEN : PTRACE_CONT, child, nullptr, nullptr);
  }
}

void release_signal(int child, int number) { ::ptrace(PTRACE_CONT, child, nullptr, number); }

}  // namespace ddprun::os
