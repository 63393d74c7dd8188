// Starts a program in a new process. Beside the keeper, this is the only place that makes one.
//
// The child borrows our memory until it runs the program (as vfork does), so starting costs the same however
// large we are, and a failure comes back in that memory: no pipe, nothing to read. The price: we stand still
// until the program's file is open, so a file system that hangs makes us hang with it.
//
// Every descriptor of ours is close-on-exec and stays here. Umask and resource limits are passed on
// untouched, but for the limit of open files where one is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ddprun/base/exit_status.hpp"
#include "ddprun/os/child.hpp"

namespace ddprun {

enum class ChildGroup { ours, own_group, own_session };

struct SpawnRequest {
  std::vector<std::string> arguments;    // [0] without a '/' is looked up in the PATH of `environment`
  std::vector<std::string> environment;  // "NAME=value", complete
  std::string working_directory;         // empty: ours
  int standard_input = 0;                // descriptors that become the child's 0, 1 and 2
  int standard_output = 1;
  int standard_error = 2;
  ChildGroup group = ChildGroup::own_group;
  // A terminal whose foreground group the child becomes before the program runs; needs ChildGroup::own_group.
  int terminal = -1;
  std::vector<int> cpus;               // the only CPUs it may run on; empty: as we do
  std::vector<int> close_descriptors;  // inherited by us without close-on-exec and not meant for the child
  // Signals the child ignores (nohup's SIGHUP); all others are at their defaults, and none is blocked.
  std::vector<int> ignored_signals;
  std::optional<std::uint64_t> open_files;  // its soft limit; empty: ours
  bool die_with_parent =
      true;  // SIGKILL when the calling thread dies, however it dies: call from the only one
};

enum class SpawnStage {
  process,            // no process could be made
  parent_death,       // prctl
  group,              // setsid, setpgid
  terminal,           // tcsetpgrp
  cpus,               // sched_setaffinity
  working_directory,  // chdir
  descriptors,        // dup2, setrlimit
  exec,               // execve: no such file, not executable, unknown format, ...
  interpreter,        // the file is there, what its first line (or its loader) names is not
};

struct SpawnFailure {
  SpawnStage stage;
  int error;  // errno
};

std::variant<Child, SpawnFailure> spawn(const SpawnRequest& request);

// "exec", "working directory", ...: what ExitStatus::stage holds.
std::string_view stage_name(SpawnStage stage);
ExitStatus not_started(const SpawnFailure& failure);

}  // namespace ddprun
