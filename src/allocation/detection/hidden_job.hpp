// A process that runs inside a Slurm job of which its environment shows nothing: a container removed the
// variables, or a script did.
#pragma once

#include <optional>

#include "allocation/allocation.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// Throws Error where the kernel shows a step of srun above this process, but SLURM_JOB_ID is not set: each
// task of the step would train alone. The hint is for the container that is seen, if any.
void check_no_hidden_step(const facts::Snapshot& snapshot);

// What to say in a batch script's or an interactive shell's container that shows no SLURM_JOB_ID, where one
// host may well be meant; nothing where there is no such container.
std::optional<Notice> find_hidden_job(const facts::Snapshot& snapshot);

}  // namespace ddprun::allocation
