#include "os/process/helper_child.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "os/descriptors.hpp"
#include "os/process/blocked_signals.hpp"

namespace ddprun::os {

namespace {

constexpr auto k_by_pidfd = static_cast<idtype_t>(3);  // P_PIDFD, which older headers lack

constexpr int k_end_limit = 1000;  // ms

ExitStatus status_of(const siginfo_t& ended) {
  ExitStatus status;
  status.kind = ended.si_code == CLD_EXITED ? ExitStatus::Kind::exited : ExitStatus::Kind::signalled;
  status.value = ended.si_status;
  return status;
}

std::optional<ExitStatus> collect(idtype_t kind, int which) {
  siginfo_t ended{};
  while (::waitid(kind, static_cast<id_t>(which), &ended, WEXITED | WNOHANG) < 0) {
    if (errno != EINTR) return std::nullopt;
  }
  return ended.si_pid != 0 ? std::optional(status_of(ended)) : std::nullopt;
}

std::optional<ExitStatus> end_by_pidfd(int process) {
  ::syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0);
  pollfd ended{process, POLLIN, 0};
  while (::poll(&ended, 1, k_end_limit) < 0 && errno == EINTR) {
  }
  return collect(k_by_pidfd, process);
}

std::optional<ExitStatus> end_by_number(pid_t child) {
  siginfo_t state{};
  if (::waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT) != 0)
    return std::nullopt;
  ::kill(child, SIGKILL);
  for (int waited = 0; waited < k_end_limit; ++waited) {
    if (const auto status = collect(P_PID, child)) return status;
    const timespec moment{0, 1000000};
    ::nanosleep(&moment, nullptr);
  }
  return std::nullopt;
}

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

pid_t fork_outliving_helper(const char* name, const std::vector<int>& kept,
                            const std::function<int(const std::vector<int>& kept)>& call) {
  return fork_helper([&] {
    ::prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    ::prctl(PR_SET_NAME, name, 0, 0, 0);
    ::setsid();
    return call(close_all_but(kept));
  });
}

std::optional<ExitStatus> end_helper(pid_t child, const Fd& process) {
  if (child <= 0) return std::nullopt;
  return process ? end_by_pidfd(process.get()) : end_by_number(child);
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

}  // namespace ddprun::os
