// A launch inside a step of srun: one agent a node or a task, as srun started them.
#pragma once

#include "allocation/schedulers/slurm_facts.hpp"

namespace ddprun::allocation {

// Throws Error when the step's variables contradict each other, this host or an MPI launcher's, and
// UsageError when flags contradict the step.
Allocation parse_in_step(const SlurmFacts& facts);

}  // namespace ddprun::allocation
