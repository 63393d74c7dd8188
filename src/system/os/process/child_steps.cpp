// The child may share our memory while we run on, so it makes bare calls only, and allocates nothing.
#include "os/process/child_steps.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include <cerrno>

#include "os/process/bare_call.hpp"

namespace ddprun::os {

namespace {

// Layout of the kernel. If it has no `restorer`, the zeros after it are enough.
struct KernelSigaction {
  void (*handler)(int);
  unsigned long flags;
  void* restorer;
  std::uint64_t mask;
};

// Makes the child die with its parent. This and the next ones return 0, or the errno negated.
DDPRUN_BARE long die_with_parent(const ChildSteps& steps) {
  if (steps.parent == 0) return 0;
  const long answer = bare_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  if (answer == 0 && bare_call(SYS_getppid) != steps.parent)
    leave_child(128 + SIGKILL);  // parent died before that
  return answer;
}

DDPRUN_BARE long enter_group(ChildGroup group) {
  if (group == ChildGroup::ours) return 0;
  const bool session = group == ChildGroup::own_session;
  const long answer = session ? bare_call(SYS_setsid) : bare_call(SYS_setpgid, 0, 0);
  return answer < 0 ? answer : 0;
}

DDPRUN_BARE long take_terminal(int terminal) {
  const int group = static_cast<int>(bare_call(SYS_getpid));
  return bare_call(SYS_ioctl, terminal, TIOCSPGRP, as_word(&group));
}

DDPRUN_BARE long place_descriptors(const ChildSteps& steps) {
  for (std::size_t i = 0; i < steps.close_count; ++i) bare_call(SYS_close, steps.close_descriptors[i]);
  long sources[] = {steps.standard[0], steps.standard[1], steps.standard[2]};
  for (int target = 0; target < 3; ++target) {
    // Out of the way first: a source may be another's target.
    if (sources[target] < 3 && sources[target] != target) {
      sources[target] = bare_call(SYS_fcntl, sources[target], F_DUPFD_CLOEXEC, 3);
      if (sources[target] < 0) return sources[target];
    }
  }
  for (int target = 0; target < 3; ++target) {
    const long answer = sources[target] == target ? bare_call(SYS_fcntl, target, F_SETFD, 0)
                                                  : bare_call(SYS_dup3, sources[target], target, 0);
    if (answer < 0) return answer;
  }
  return 0;
}

DDPRUN_BARE long limit_open_files(std::uint64_t count) {
  rlimit limit;
  const long answer = bare_call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, as_word(&limit));
  if (answer != 0) return answer;
  limit.rlim_cur = count;
  return bare_call(SYS_prlimit64, 0, RLIMIT_NOFILE, as_word(&limit), 0);
}

// Resets caught signals: execve would reset them, but one that arrives before it would run our handler in the
// child.
DDPRUN_BARE long reset_signals(std::uint64_t ignored) {
  constexpr std::size_t k_mask_size = sizeof(std::uint64_t);
  KernelSigaction action{nullptr, 0, nullptr, 0};
  for (int signal = 1; signal < _NSIG; ++signal) {
    action.handler = (ignored >> (signal - 1) & 1) != 0 ? SIG_IGN : SIG_DFL;
    const long answer = bare_call(SYS_rt_sigaction, signal, as_word(&action), 0, k_mask_size);
    if (answer != 0 && answer != -EINVAL) return answer;  // EINVAL: SIGKILL, SIGSTOP
  }
  const std::uint64_t none = 0;
  return bare_call(SYS_rt_sigprocmask, SIG_SETMASK, as_word(&none), 0, k_mask_size);
}

DDPRUN_BARE void wait_for_release(const SharedStart& start) {
  constexpr int k_steps = static_cast<int>(k_longest_hold / Milliseconds{1});
  const timespec step{0, 1000000};
  for (int i = 0; i < k_steps && !start.is_released(); ++i) bare_call(SYS_nanosleep, as_word(&step), 0);
}

DDPRUN_BARE SpawnFailure failure_of(StartStage stage, long answer) {
  return {stage, static_cast<int>(-answer)};
}

// Returns only when no candidate could be run. A later one that works wins over an earlier one that does not.
DDPRUN_BARE SpawnFailure run_program_file(const ChildSteps& steps) {
  SpawnFailure failure = failure_of(StartStage::exec, -ENOENT);
  for (const char* const* path = steps.program_paths; *path != nullptr; ++path) {
    const long answer =
        bare_call(SYS_execve, as_word(*path), as_word(steps.arguments), as_word(steps.environment));
    if (answer == -ENOENT && bare_call(SYS_faccessat, AT_FDCWD, as_word(*path), F_OK) == 0) {
      failure = failure_of(StartStage::interpreter, answer);
    } else if (answer == -EACCES) {
      failure = failure_of(StartStage::exec, answer);
    } else if (answer != -ENOENT && answer != -ENOTDIR) {
      return failure_of(StartStage::exec, answer);
    }
  }
  return failure;
}

}  // namespace

DDPRUN_BARE SpawnFailure take_steps(const ChildSteps& steps, SharedStart& start) noexcept {
  long answer = die_with_parent(steps);
  if (answer != 0) return failure_of(StartStage::parent_death, answer);
  answer = enter_group(steps.group);
  if (answer != 0) return failure_of(StartStage::group, answer);
  // Signals are still blocked, SIGTTOU too: else a background process is stopped here.
  if (steps.terminal >= 0) answer = take_terminal(steps.terminal);
  if (answer != 0) return failure_of(StartStage::terminal, answer);
  if (steps.working_directory != nullptr) answer = bare_call(SYS_chdir, as_word(steps.working_directory));
  if (answer != 0) return failure_of(StartStage::working_directory, answer);
  answer = place_descriptors(steps);
  if (answer == 0 && steps.limits_open_files) answer = limit_open_files(steps.open_files);
  if (answer != 0) return failure_of(StartStage::descriptors, answer);
  answer = reset_signals(steps.ignored_signals);
  if (answer != 0) return failure_of(StartStage::signals, answer);
  start.write_refusal(bind_self(*steps.binding));
  if (steps.hold) wait_for_release(start);
  return run_program_file(steps);
}

DDPRUN_BARE void leave_child(int code) noexcept {
  while (true) bare_call(SYS_exit_group, code);
}

}  // namespace ddprun::os
