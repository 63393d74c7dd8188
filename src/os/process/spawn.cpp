#include "os/process/spawn.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "base/text.hpp"
#include "os/process/blocked_signals.hpp"
#include "os/process/exec_pointers.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

constexpr int k_not_started = 127;  // nobody sees it: Child::ending() tells the failure instead

// All the child needs, made before it exists: it may not allocate.
struct Prepared {
  const SpawnRequest& request;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  std::vector<std::string> program_paths;  // tried in turn
  PreparedBinding binding;
  std::array<bool, _NSIG> ignored{};
  int parent;
};

// As execvp(3), but with the child's PATH; an empty piece is the working directory.
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

bool die_with_parent(const Prepared& prepared) {
  if (!prepared.request.die_with_parent) return true;
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return false;
  if (::getppid() != prepared.parent) ::_exit(128 + SIGKILL);  // it died before the line above
  return true;
}

bool enter_group(ChildGroup group) {
  if (group == ChildGroup::own_session) return ::setsid() >= 0;
  return group == ChildGroup::ours || ::setpgid(0, 0) == 0;
}

bool place_descriptors(const SpawnRequest& request) {
  for (const int descriptor : request.close_descriptors) ::close(descriptor);
  int sources[] = {request.standard_input, request.standard_output, request.standard_error};
  for (int target = 0; target < 3; ++target) {
    // Out of the way first: a source may be another's target.
    if (sources[target] < 3 && sources[target] != target) {
      sources[target] = ::fcntl(sources[target], F_DUPFD_CLOEXEC, 3);
      if (sources[target] < 0) return false;
    }
  }
  for (int target = 0; target < 3; ++target) {
    const bool placed = sources[target] == target ? ::fcntl(target, F_SETFD, 0) == 0
                                                  : ::dup2(sources[target], target) == target;
    if (!placed) return false;
  }
  return true;
}

bool restore_limit(const SpawnRequest& request) {
  if (!request.open_files) return true;
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  limit.rlim_cur = *request.open_files;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

// Caught signals would be reset by execve, but one that arrives before it would run our handler in the child.
bool reset_signals(const Prepared& prepared) {
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  for (int signal = 1; signal < _NSIG; ++signal) {
    action.sa_handler = prepared.ignored[static_cast<std::size_t>(signal)] ? SIG_IGN : SIG_DFL;
    // EINVAL: SIGKILL, SIGSTOP and those that the C library keeps for itself
    if (::sigaction(signal, &action, nullptr) != 0 && errno != EINVAL) return false;
  }
  sigset_t none;
  ::sigemptyset(&none);
  return ::sigprocmask(SIG_SETMASK, &none, nullptr) == 0;
}

// Returns only when no candidate could be run. A later one that works wins over an earlier one that does not.
SpawnFailure run_program_file(const Prepared& prepared) {
  SpawnFailure failure{StartStage::exec, ENOENT};
  for (const std::string& path : prepared.program_paths) {
    ::execve(path.c_str(), prepared.arguments.data(), prepared.environment.data());
    if (errno == ENOENT && ::access(path.c_str(), F_OK) == 0) {
      failure = {StartStage::interpreter, ENOENT};
    } else if (errno == EACCES) {
      failure = {StartStage::exec, EACCES};
    } else if (errno != ENOENT && errno != ENOTDIR) {
      return {StartStage::exec, errno};
    }
  }
  return failure;
}

SpawnFailure become_program(const Prepared& prepared, SharedStart& start) {
  const SpawnRequest& request = prepared.request;
  if (!die_with_parent(prepared)) return {StartStage::parent_death, errno};
  if (!enter_group(request.group)) return {StartStage::group, errno};
  // Signals are still blocked, SIGTTOU too: else a background process is stopped here.
  if (request.terminal >= 0 && ::tcsetpgrp(request.terminal, ::getpid()) != 0) {
    return {StartStage::terminal, errno};
  }
  if (!request.working_directory.empty() && ::chdir(request.working_directory.c_str()) != 0) {
    return {StartStage::working_directory, errno};
  }
  if (!place_descriptors(request) || !restore_limit(request)) return {StartStage::descriptors, errno};
  if (!reset_signals(prepared)) return {StartStage::signals, errno};
  start.write_refusal(bind_self(prepared.binding));
  if (request.hold) start.wait_for_release();
  return run_program_file(prepared);
}

// No handler of ours may run in the child. Negative, and errno: there is none.
template <class Become>
int fork_unheard(const Become& become) {
  const BlockedSignals blocked;
  if (blocked.error() != 0) {
    errno = blocked.error();
    return -1;
  }
  const int pid = ::fork();
  if (pid != 0) return pid;
  become();
  ::_exit(k_not_started);
}

}  // namespace

std::variant<Child, SpawnFailure> spawn(const SpawnRequest& request) {
  if (request.arguments.empty()) return SpawnFailure{StartStage::exec, ENOENT};
  Prepared prepared{request,
                    pointers_to(request.arguments),
                    pointers_to(request.environment),
                    program_paths(request),
                    prepare_binding(request.binding, request.unbound_cpus),
                    {},
                    ::getpid()};
  for (const int signal : request.ignored_signals)
    prepared.ignored.at(static_cast<std::size_t>(signal)) = true;
  const std::shared_ptr<SharedStart> start = SharedStart::make();
  if (!start) return SpawnFailure{StartStage::process, ENOMEM};

  const int pid = fork_unheard([&] { start->write_failure(become_program(prepared, *start)); });
  if (pid < 0) return SpawnFailure{StartStage::process, errno};
  // Nobody else reaps our children, so the number is still this child's.
  return Child(pid, open_pidfd(pid), request.group != ChildGroup::ours, start);
}

}  // namespace ddprun::os
