#include "ddprun/os/process/helper_child.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "ddprun/os/process/blocked_signals.hpp"

namespace ddprun {

namespace {

constexpr auto k_by_pidfd = static_cast<idtype_t>(3);  // P_PIDFD, which older headers lack

[[noreturn]] void run_and_leave(const std::function<int()>& call, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  try {
    ::_exit(call());
  } catch (...) {
    ::_exit(1);
  }
}

}  // namespace

pid_t fork_helper(const std::function<int()>& call) {
  const BlockedSignals blocked;
  if (blocked.error() != 0) {
    errno = blocked.error();
    return -1;
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) run_and_leave(call, parent);
  return child;
}

void end_helper(pid_t child, const Fd& process) {
  if (process) {
    siginfo_t ended{};
    ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
    while (::waitid(k_by_pidfd, static_cast<id_t>(process.get()), &ended, WEXITED) < 0 && errno == EINTR) {
    }
    return;
  }
  int status = 0;
  if (child <= 0 || ::waitpid(child, &status, WNOHANG) != 0) return;
  ::kill(child, SIGKILL);
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
}

bool write_whole(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace ddprun
