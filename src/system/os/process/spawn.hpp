// Starts a program in a new process. Beside the reaper, this is the only place that makes one.
//
// The child shares our memory until it has become its program (CLONE_VM), and we do not wait for that:
// nothing is copied for it, many workers come up side by side, and a program on a file system that hangs
// holds up no other start. What goes wrong in the child it leaves there, where its ending is looked at: no
// pipe, nothing to read. Where that is refused it is made by fork.
//
// Every descriptor of ours is close-on-exec and stays here. Umask and resource limits are passed on
// untouched, but for the limit of open files where one is asked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "facts/binding.hpp"
#include "os/process/bind_self.hpp"
#include "os/process/child.hpp"

namespace ddprun::os {

enum class ChildGroup { ours, own_group, own_session };

struct SpawnRequest {
  std::vector<std::string> arguments;    // [0] without a '/' is looked up in the PATH of `environment`
  std::string program;                   // the file to run; empty: found from [0]
  std::vector<std::string> environment;  // "NAME=value", complete
  std::string working_directory;         // empty: ours
  int standard_input = 0;                // descriptors that become the child's 0, 1 and 2
  int standard_output = 1;
  int standard_error = 2;
  ChildGroup group = ChildGroup::own_group;
  // A terminal whose foreground group the child becomes before the program runs; needs ChildGroup::own_group.
  int terminal = -1;
  // Binding to be tried: what the kernel refuses is left in Child::refusal(), and is never a reason not to
  // run.
  facts::Binding binding;
  // The CPUs of a child that is not bound, where ddprun itself has moved away from them; empty: ours.
  std::vector<int> unbound_cpus;
  // True if the child waits before it runs its program, bound already, for Child::release(), k_longest_hold
  // at most.
  bool hold = false;
  std::vector<int> close_descriptors;  // inherited by us without close-on-exec and not meant for the child
  // Signals the child ignores (nohup's SIGHUP); all others are at their defaults, and none is blocked.
  std::vector<int> ignored_signals;
  std::optional<std::uint64_t> open_files;  // its soft limit; empty: ours
  // SIGKILL when the calling thread dies, however it dies: call from the only one.
  bool die_with_parent = true;
  friend bool operator==(const SpawnRequest&, const SpawnRequest&) = default;
};

// Spawns a child. Returns a SpawnFailure only if there could be no process; a failure in it becomes its
// ending (Child::ending()).
std::variant<Child, SpawnFailure> spawn(const SpawnRequest& request);

// Steps of a child between its making and its program.

// Steps in plain pointers, for a child that may share with us what they lead to. They have to stay unchanged
// until the child needs them no more.
struct ChildSteps {
  char* const* arguments;
  char* const* environment;
  const char* const* program_paths;  // tried in turn; a null pointer ends them
  const char* working_directory;     // null: ours
  std::array<int, 3> standard;       // descriptors that become 0, 1 and 2
  const int* close_descriptors;
  std::size_t close_count;
  ChildGroup group;
  int terminal;  // negative: none
  int parent;    // process whose end kills the child; 0: none
  bool limits_open_files;
  std::uint64_t open_files;
  bool hold;
  std::uint64_t ignored_signals;  // bit 0 is signal 1
  const PreparedBinding* binding;
};

// Becomes the program; returns only where that fails. All signals have to be blocked.
SpawnFailure take_steps(const ChildSteps& steps, SharedStart& start) noexcept;

[[noreturn]] void leave_child(int code) noexcept;

}  // namespace ddprun::os
