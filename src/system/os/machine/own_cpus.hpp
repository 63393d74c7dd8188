// CPUs on which ddprun itself runs, and those of a process it started, as the kernel shows them.
#pragma once

#include <optional>
#include <vector>

#include "facts/binding.hpp"

namespace ddprun::os {

// Moves the calling thread to these CPUs; false where the kernel refuses, which changes nothing.
bool keep_to_cpus(const std::vector<int>& cpus);

// Reads the affinity mask of a process' first thread (0: of the calling thread), ascending, for machines of
// any size; empty when there is no such process or the kernel refuses.
std::vector<int> read_affinity(int pid);

// Reads back the binding of a running process of ours: sched_getaffinity(2) and the policy that
// /proc/<pid>/numa_maps shows. nullopt once it has ended; the policy is untouched if the kernel shows none.
std::optional<facts::Binding> read_binding(int pid);

}  // namespace ddprun::os
