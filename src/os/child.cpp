#include "ddprun/os/child.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "ddprun/os/process_table.hpp"

namespace ddprun {

namespace {

std::optional<ExitStatus> wait_now(int pid, int flags) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | flags) != 0) return std::nullopt;
  if (info.si_pid == 0) return std::nullopt;
  ExitStatus status;
  status.kind = info.si_code == CLD_EXITED ? ExitStatus::Kind::exited : ExitStatus::Kind::signalled;
  status.value = info.si_status;
  status.core_dumped = info.si_code == CLD_DUMPED;
  return status;
}

}  // namespace

Child::Child(int pid, Fd pidfd, bool leads_group, std::shared_ptr<SharedStart> start)
    : pid_(pid), pidfd_(std::move(pidfd)), leads_group_(leads_group), start_(std::move(start)) {}

std::optional<ExitStatus> Child::ending() {
  if (ending_) return ending_;
  ending_ = wait_now(pid_, WNOWAIT);
  const auto failure = ending_ && start_ ? start_->failure() : std::nullopt;
  if (failure) ending_ = not_started(*failure);
  return ending_;
}

std::optional<int> Child::take_stop() {
  siginfo_t info{};
  if (reaped_ || ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG) != 0)
    return std::nullopt;
  return info.si_pid == 0 ? std::nullopt : std::optional(info.si_status);
}

std::optional<ExitStatus> Child::reap() {
  if (!ending()) return std::nullopt;
  if (!reaped_) ddprun::reap(pid_);
  reaped_ = true;
  pidfd_.close();
  return ending_;
}

std::optional<BindingRefusal> Child::refusal() const { return start_ ? start_->refusal() : std::nullopt; }

void Child::release() {
  if (start_) start_->release();
}

bool Child::send_signal(int signal) {
  if (reaped_) return false;
  if (!pidfd_) return ::kill(pid_, signal) == 0;
  return ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0) == 0;
}

bool Child::send_signal_to_group(int signal) {
  return !reaped_ && leads_group_ && ::kill(-pid_, signal) == 0;
}

bool Child::send_signal_to_family(int signal) {
  if (reaped_) return false;
  bool reached = false;
  const ProcessTable table = capture_processes();
  const ProcessTable family = leads_group_ ? find_families(table, {pid_}) : find_descendants(table, pid_);
  for (const ProcessEntry& member : family) reached |= member.state != 'Z' && send_signal_to(member, signal);
  if (!leads_group_) reached |= send_signal(signal);
  return reached;
}

std::optional<ExitStatus> reap(int pid) { return wait_now(pid, 0); }

Fd open_pidfd(int pid) { return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

bool adopt_orphans() { return ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0; }

void reap_orphans(const std::vector<int>& known) {
  siginfo_t any{};  // looking for them is only worth it when somebody has ended
  if (::waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) != 0 || any.si_pid == 0) return;
  for (const int child : capture_children()) {
    if (std::find(known.begin(), known.end(), child) == known.end()) reap(child);
  }
}

std::size_t kill_descendants(const std::vector<int>& except) {
  const ProcessTable descendants = find_descendants(capture_processes(), ::getpid(), except);
  for (const ProcessEntry& process : descendants) {
    if (process.state != 'Z') {
      send_signal_to(process, SIGKILL);
    } else if (process.parent == ::getpid()) {
      reap(process.pid);
    }
  }
  return descendants.size();
}

bool kill_all_descendants(const std::vector<int>& except, Milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (kill_descendants(except) != 0) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(Milliseconds(2));
  }
  return true;
}

}  // namespace ddprun
