#include "os/process/spawn.hpp"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/text.hpp"
#include "os/process/bare_call.hpp"
#include "os/process/blocked_signals.hpp"
#include "os/process/child_steps.hpp"
#include "os/process/exec_pointers.hpp"

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

}  // namespace ddprun::os
