#include "os/process/helper_child.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/blocked_signals.hpp"
#include "os/process/child.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

constexpr Milliseconds k_end_limit{1000};

// Holds the helpers of this process, which has one thread.
std::vector<int>& helpers() {
  static std::vector<int> pids;
  return pids;
}

std::optional<ExitStatus> end_by_pidfd(const Fd& process) {
  ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
  wait_until_ready(process.get(), now() + k_end_limit);
  return reap(process);
}

std::optional<ExitStatus> end_by_number(pid_t child) {
  siginfo_t state{};
  if (::waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT) != 0)
    return std::nullopt;
  ::kill(child, SIGKILL);
  for (const TimePoint deadline = now() + k_end_limit; now() < deadline;) {
    if (const auto status = reap(child)) return status;
    const timespec moment{0, 1000000};
    ::nanosleep(&moment, nullptr);
  }
  return std::nullopt;
}

[[noreturn]] void run_and_leave(const std::function<int()>& call, pid_t parent) {
  helpers().clear();
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
  if (child > 0) note_helper(child);
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
  return process ? end_by_pidfd(process) : end_by_number(child);
}

std::vector<int> running_helpers() { return helpers(); }

void note_helper(pid_t child) { helpers().push_back(child); }

void forget_helper(pid_t child) { std::erase(helpers(), child); }

AnsweringChild::AnsweringChild(const std::function<std::string()>& call, const std::string& purpose,
                               const std::function<void()>& afterwards) {
  Pipe pipe = make_pipe();
  answer_ = std::move(pipe.reader);
  child_ = fork_helper([&] {
    write_whole(pipe.writer.get(), call());
    pipe.writer.close();
    if (afterwards) afterwards();
    return 0;
  });
  const int error = errno;
  if (child_ < 0) throw system_failure("cannot " + purpose, error);
  process_ = open_pidfd(child_);
}

AnsweringChild::AnsweringChild(AnsweringChild&& other) noexcept
    : answer_(std::move(other.answer_)),
      process_(std::move(other.process_)),
      child_(std::exchange(other.child_, -1)) {}

AnsweringChild& AnsweringChild::operator=(AnsweringChild&& other) noexcept {
  end();
  answer_ = std::move(other.answer_);
  process_ = std::move(other.process_);
  child_ = std::exchange(other.child_, -1);
  return *this;
}

std::optional<ExitStatus> AnsweringChild::end() {
  return end_helper(std::exchange(child_, -1), std::exchange(process_, Fd()));
}

namespace {

constexpr int k_lowest_priority = 19;

std::string import_torch(const std::string& python) {
  const Fd null = open_null();
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), descriptor);
  ::setpriority(PRIO_PROCESS, 0, k_lowest_priority);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  ::execl(python.c_str(), python.c_str(), "-c", "import torch", nullptr);
  return {};
}

}  // namespace

AnsweringChild start_warm_up(const std::string& python) {
  return AnsweringChild([&python] { return import_torch(python); }, "read the files of torch");
}

}  // namespace ddprun::os
