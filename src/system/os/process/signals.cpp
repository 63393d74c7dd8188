#include "os/process/signals.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.hpp"
#include "os/process/process_table.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

std::vector<int> processes_above() {
  std::vector<int> above;
  for (int pid = ::getppid(); pid > 0;) {
    above.push_back(pid);
    const auto process = capture_process(pid);
    pid = process ? process->parent : 0;
  }
  return above;
}

}  // namespace

struct SignalSource::Saved {
  sigset_t mask;
  struct sigaction pipe_action;
  struct sigaction child_action;
};

std::vector<int> handled_signals() {
  std::vector<int> signals{SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGALRM, SIGUSR1,   SIGUSR2,
                           SIGTSTP, SIGCONT, SIGCHLD, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF};
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) signals.push_back(number);
  return signals;
}

bool is_passed_on(const SignalEvent& event) {
  switch (event.number) {
    case SIGCHLD:
    case SIGVTALRM:  // sent by this process' interval timers, setitimer(2)
    case SIGPROF:
    case SIGXFSZ:  // sent for a write of ours, which fails with EFBIG as well
      return false;
    case SIGXCPU:
      return event.code != SI_KERNEL;  // sent at our own limit: every worker has its own
    default:
      return true;
  }
}

std::string describe_sender(const SignalEvent& event) {
  if (event.is_from_key() || event.from_above || event.sender_pid <= 0) return {};
  const auto process = sees_own_processes() ? capture_process(event.sender_pid) : std::nullopt;
  const std::string who = process ? fmt::format("{}, pid {}", printable(process->name), event.sender_pid)
                                  : fmt::format("pid {}", event.sender_pid);
  const bool by_other = event.sender_uid != static_cast<int>(::geteuid());
  return fmt::format("sent by {}{}", who, by_other ? fmt::format(" of uid {}", event.sender_uid) : "");
}

std::vector<int> capture_ignored_signals(const std::vector<int>& signals) {
  std::vector<int> ignored;
  std::copy_if(signals.begin(), signals.end(), std::back_inserter(ignored), [](int signal) {
    struct sigaction action {};
    const bool counts = signal != SIGCHLD && signal != SIGINT && signal != SIGQUIT;
    return counts && ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
  });
  return ignored;
}

bool SignalEvent::is_from_key() const { return code == SI_KERNEL; }

bool SignalSource::is_from_above(const SignalEvent& event) const {
  if (event.is_from_key()) return false;
  return event.sender_pid == 0 || std::find(above_.begin(), above_.end(), event.sender_pid) != above_.end();
}

SignalSource::SignalSource(const std::vector<int>& signals)
    : saved_(std::make_unique<Saved>()), above_(processes_above()) {
  const std::vector<int> ignored = capture_ignored_signals(signals);
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal : signals) {
    if (std::find(ignored.begin(), ignored.end(), signal) == ignored.end()) ::sigaddset(&taken, signal);
  }
  descriptor_ = Fd(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_) throw system_failure("cannot watch signals", errno);
  if (::sigprocmask(SIG_BLOCK, &taken, &saved_->mask) != 0)
    throw system_failure("cannot block signals", errno);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &saved_->pipe_action);
  struct sigaction standard {
  };  // ignored, as some parents leave it, children would be reaped behind our back
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, &saved_->child_action);
}

void SignalSource::keep_blocked() noexcept { saved_.reset(); }

SignalSource::~SignalSource() {
  if (!saved_) return;
  ::sigaction(SIGPIPE, &saved_->pipe_action, nullptr);
  ::sigaction(SIGCHLD, &saved_->child_action, nullptr);
  ::sigprocmask(SIG_SETMASK, &saved_->mask, nullptr);
}

std::optional<SignalEvent> SignalSource::read() {
  signalfd_siginfo info;
  if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  SignalEvent event{static_cast<int>(info.ssi_signo), static_cast<int>(info.ssi_pid), info.ssi_code,
                    static_cast<int>(info.ssi_uid)};
  event.from_above = is_from_above(event);
  return event;
}

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
