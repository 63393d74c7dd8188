// Binding of a process to CPUs and memory, as the kernel is told before the program begins.
#pragma once

#include <string>
#include <vector>

namespace ddprun::facts {

enum class MemoryPolicy {
  untouched,  // same as ddprun's own
  preferred,  // set_mempolicy(2) MPOL_PREFERRED: these nodes while they have room
  bind,       // MPOL_BIND: these nodes and no others
};

struct Binding {
  std::vector<int> cpus;          // the kernel's numbers, ascending; empty: not bound, as ddprun itself
  std::vector<int> memory_nodes;  // the kernel's numbers, ascending; empty with MemoryPolicy::untouched
  MemoryPolicy policy = MemoryPolicy::untouched;
  friend bool operator==(const Binding&, const Binding&) = default;
};

// Returns "CPUs 24-31,88-95, memory preferred on node 3"; without CPUs or policy that part is left out.
std::string describe(const Binding& binding);

}  // namespace ddprun::facts
