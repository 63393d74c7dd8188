// Steps of a child between its making and its program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "os/process/bind_self.hpp"
#include "os/process/spawn.hpp"
#include "os/process/spawn_failure.hpp"

namespace ddprun::os {

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
