#include "os/process/spawn.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/text.hpp"
#include "os/process/become.hpp"
#include "os/process/bind_self.hpp"
#include "os/process/signals.hpp"

namespace ddprun::os {

namespace {

constexpr int k_not_started = 127;  // seen by no process: Child::ending() reports the failure instead
constexpr std::size_t k_most_spare = 16;

// Enough for bare calls; only the pages that are used are there.
struct alignas(16) Stack {
  std::array<std::byte, 16384> bytes;
};

// All that the child reads and where it runs, as long as it shares our memory: until it has become its
// program, or has failed to. Made before it is, and nothing of it is touched while `in_use`.
struct Start {
  explicit Start(SpawnRequest asked);
  bool is_over() const { return in_use.load(std::memory_order_acquire) == 0; }

  SpawnRequest request;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  std::vector<std::string> path_texts;
  std::vector<const char*> paths;
  PreparedBinding binding;
  ChildSteps steps{};
  std::shared_ptr<SharedStart> shared;
  std::unique_ptr<Stack> stack;
  std::atomic<int> in_use{1};  // the kernel clears it (CLONE_CHILD_CLEARTID)
  static_assert(sizeof(std::atomic<int>) == sizeof(int));
};

// Returns the paths to try, as execvp(3) does, but with the child's PATH; an empty piece is the working
// directory.
std::vector<std::string> program_paths(const SpawnRequest& request) {
  if (!request.program.empty()) return {request.program};
  const std::string& program = request.arguments[0];
  if (program.find('/') != std::string::npos) return {program};
  constexpr std::string_view k_path = "PATH=";
  std::string path = "/bin:/usr/bin";
  for (const std::string& variable : request.environment) {
    if (variable.starts_with(k_path)) path = variable.substr(k_path.size());
  }
  std::vector<std::string> paths = split(path, ':');
  for (std::string& directory : paths) directory = directory.empty() ? program : directory + "/" + program;
  return paths;
}

std::uint64_t as_mask(const std::vector<int>& signals) {
  std::uint64_t mask = 0;
  for (const int signal : signals) mask |= std::uint64_t{1} << (signal - 1);
  return mask;
}

Start::Start(SpawnRequest asked)
    : request(std::move(asked)),
      arguments(pointers_to(request.arguments)),
      environment(pointers_to(request.environment)),
      path_texts(program_paths(request)),
      binding(prepare_binding(request.binding, request.unbound_cpus)) {
  for (const std::string& path : path_texts) paths.push_back(path.c_str());
  paths.push_back(nullptr);
  steps.arguments = arguments.data();
  steps.environment = environment.data();
  steps.program_paths = paths.data();
  if (!request.working_directory.empty()) steps.working_directory = request.working_directory.c_str();
  steps.standard = {request.standard_input, request.standard_output, request.standard_error};
  steps.close_descriptors = request.close_descriptors.data();
  steps.close_count = request.close_descriptors.size();
  steps.group = request.group;
  steps.terminal = request.terminal;
  steps.parent = request.die_with_parent ? ::getpid() : 0;
  steps.limits_open_files = request.open_files.has_value();
  steps.open_files = request.open_files.value_or(0);
  steps.hold = request.hold;
  steps.ignored_signals = as_mask(request.ignored_signals);
  steps.binding = &binding;
}

DDPRUN_BARE int run_child(void* argument) {
  Start& start = *static_cast<Start*>(argument);
  const SpawnFailure failure = take_steps(start.steps, *start.shared);
  start.shared->write_failure(failure);
  leave_child(k_not_started);
}

// Starts that share our memory with their children. Never destroyed: at our end some of these may not be
// over.
struct Starts {
  std::vector<std::unique_ptr<Start>> going_on;
  std::vector<std::unique_ptr<Stack>> spare;

  static Starts& ours() {
    static Starts& starts = *new Starts;
    return starts;
  }
  std::unique_ptr<Stack> take_stack() {
    if (spare.empty()) return std::unique_ptr<Stack>(new Stack);  // its pages stay unwritten
    std::unique_ptr<Stack> stack = std::move(spare.back());
    spare.pop_back();
    return stack;
  }
  void drop_ended() {
    std::erase_if(going_on, [this](const std::unique_ptr<Start>& start) {
      if (!start->is_over()) return false;
      if (spare.size() < k_most_spare) spare.push_back(std::move(start->stack));
      return true;
    });
  }
};

// Reports whether an emulator (qemu-user), or a container's filter, has refused to make a child in this way.
bool is_refused(int error) { return error == EINVAL || error == ENOSYS || error == EPERM; }

// Makes a child that goes on beside us in our memory: none of it is copied, neither now nor when we write to
// it. Negative: there is none, and this is the errno negated.
int make_sharing(std::unique_ptr<Start> start) {
  Starts& starts = Starts::ours();
  starts.going_on.reserve(starts.going_on.size() + 1);
  start->stack = starts.take_stack();
  std::byte* const top = start->stack->bytes.data() + start->stack->bytes.size();
  constexpr int k_flags = CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD;
  const int pid = ::clone(run_child, top, k_flags, start.get(), nullptr, nullptr, &start->in_use);
  if (pid < 0) return -errno;
  starts.going_on.push_back(std::move(start));
  return pid;
}

int make_separate(Start& start) {
  const int pid = ::fork();
  if (pid == 0) run_child(&start);
  return pid < 0 ? -errno : pid;
}

struct Made {
  int pid;
  int error;
  std::shared_ptr<SharedStart> shared;
};

Made make_child(const SpawnRequest& request, bool sharing) {
  auto start = std::make_unique<Start>(request);
  std::shared_ptr<SharedStart> shared = SharedStart::make(!sharing);
  if (!shared) return {-1, ENOMEM, {}};
  start->shared = shared;
  const BlockedSignals blocked;  // no handler of ours may run in the child
  if (blocked.error() != 0) return {-1, blocked.error(), {}};
  const int pid = sharing ? make_sharing(std::move(start)) : make_separate(*start);
  return {pid, pid < 0 ? -pid : 0, std::move(shared)};
}

}  // namespace

std::variant<Child, SpawnFailure> spawn(const SpawnRequest& request) {
  static bool shares = k_has_bare_calls;
  if (request.arguments.empty()) return SpawnFailure{StartStage::exec, ENOENT};
  Starts::ours().drop_ended();
  Made made = make_child(request, shares);
  if (shares && is_refused(made.error)) {
    shares = false;
    made = make_child(request, false);
  }
  if (made.pid < 0) return SpawnFailure{StartStage::process, made.error};
  // No other code reaps our children, so the number is still this child's.
  return Child(made.pid, open_pidfd(made.pid), request.group != ChildGroup::ours, std::move(made.shared));
}

// The child may share our memory while we run on, so it makes bare calls only, and allocates nothing.

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
