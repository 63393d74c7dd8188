#include "os/process/child.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "os/descriptors.hpp"
#include "os/process/helper_child.hpp"
#include "os/process/process_table.hpp"

namespace ddprun::os {

namespace {

constexpr Milliseconds k_longest_ending{1000};
constexpr auto k_by_pidfd = static_cast<idtype_t>(3);  // P_PIDFD, which older headers lack

// Asks a second time if it is refused: it would not be asked again, since SIGCHLD comes once.
bool ask_now(idtype_t type, int id, int flags, siginfo_t& info) {
  return ::waitid(type, static_cast<id_t>(id), &info, flags | WNOHANG) == 0 ||
         ::waitid(type, static_cast<id_t>(id), &info, flags | WNOHANG) == 0;
}

// Does not reap: of one that we trace a stop is shown too, which no other call would see
// then.
std::optional<ExitStatus> look_at_end(idtype_t type, int id) {
  siginfo_t info{};
  if (!ask_now(type, id, WEXITED | WNOWAIT, info)) return std::nullopt;
  if (info.si_pid == 0 || info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED) return std::nullopt;
  ExitStatus status;
  status.kind = info.si_code == CLD_EXITED ? ExitStatus::Kind::exited : ExitStatus::Kind::signalled;
  status.value = info.si_status;
  status.core_dumped = info.si_code == CLD_DUMPED;
  return status;
}

std::optional<ExitStatus> reap_one(idtype_t type, int id) {
  const auto status = look_at_end(type, id);
  siginfo_t info{};
  if (!status || !ask_now(type, id, WEXITED, info)) return std::nullopt;
  forget_helper(info.si_pid);
  return status;
}

// Finds one of our children that has ended and is not reaped; 0: there is none.
int find_ended_child() {
  siginfo_t info{};
  return ask_now(P_ALL, 0, WEXITED | WNOWAIT, info) ? info.si_pid : 0;
}

}  // namespace

Child::Child(int pid, Fd pidfd, bool leads_group, std::shared_ptr<SharedStart> start)
    : pid_(pid), pidfd_(std::move(pidfd)), leads_group_(leads_group), start_(std::move(start)) {}

std::optional<ExitStatus> Child::ending() {
  if (ending_) return ending_;
  ending_ = look_at_end(P_PID, pid_);
  const auto failure = ending_ && start_ ? start_->failure() : std::nullopt;
  if (failure) ending_ = not_started(*failure);
  return ending_;
}

std::optional<int> Child::take_stop() {
  siginfo_t info{};
  if (reaped_ || !ask_now(P_PID, pid_, WSTOPPED, info)) return std::nullopt;
  return info.si_pid == 0 ? std::nullopt : std::optional(info.si_status);
}

std::optional<ExitStatus> Child::reap() {
  if (!ending()) return std::nullopt;
  if (!reaped_) os::reap(pid_);
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
  if (!sees_own_processes()) return leads_group_ ? send_signal_to_group(signal) : send_signal(signal);
  bool reached = false;
  const ProcessTable table = capture_processes();
  const ProcessTable family = leads_group_ ? find_families(table, {pid_}) : find_descendants(table, pid_);
  for (const ProcessEntry& member : family) reached |= !has_ended(member) && send_signal_to(member, signal);
  if (!leads_group_) reached |= send_signal(signal);
  return reached;
}

EndingChild::EndingChild(int pid) : pid_(pid), pidfd_(open_pidfd(pid)) {}

EndingChild::EndingChild(EndingChild&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}

EndingChild& EndingChild::operator=(EndingChild&& other) noexcept {
  wait();
  pid_ = std::exchange(other.pid_, -1);
  pidfd_ = std::move(other.pidfd_);
  return *this;
}

// Waits for the end. A tracer may hold back an ending that the pidfd shows.
void EndingChild::wait() noexcept {
  if (pid_ < 0) return;
  if (pidfd_) wait_until_ready(pidfd_.get(), std::chrono::steady_clock::now() + k_longest_ending);
  const auto deadline = std::chrono::steady_clock::now() + k_longest_ending;
  siginfo_t info{};
  while (!reap(pid_) && ask_now(P_PID, pid_, WEXITED | WNOWAIT, info) &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(Milliseconds(1));
  pid_ = -1;
}

std::optional<ExitStatus> reap(int pid) { return reap_one(P_PID, pid); }
std::optional<ExitStatus> reap(const Fd& pidfd) { return reap_one(k_by_pidfd, pidfd.get()); }

Fd open_pidfd(int pid) { return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

bool adopt_orphans() { return ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0; }

void reap_orphans(const std::vector<int>& known) {
  const auto is_known = [&known](int pid) {
    return std::find(known.begin(), known.end(), pid) != known.end();
  };
  int ended = find_ended_child();
  while (ended != 0 && !is_known(ended)) ended = reap(ended) ? find_ended_child() : 0;
  if (ended == 0) return;
  // The kernel goes on answering with this one, so the others are asked for by number.
  for (const int child : capture_children()) {
    if (!is_known(child)) reap(child);
  }
}

std::size_t kill_descendants(const std::vector<int>& except) {
  const ProcessTable descendants = find_descendants(capture_processes(), ::getpid(), except);
  for (const ProcessEntry& process : descendants) {
    if (!has_ended(process)) {
      send_signal_to(process, SIGKILL);
    } else if (process.parent == ::getpid()) {
      reap(process.pid);
    }
  }
  return descendants.size();
}

}  // namespace ddprun::os
