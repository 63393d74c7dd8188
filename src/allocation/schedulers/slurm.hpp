// Where we are according to Slurm: inside a step of srun, in a batch script, in a shell of salloc.
#pragma once

#include "allocation/allocation.hpp"
#include "allocation/place_options.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// A job id is set.
bool has_slurm_job(const facts::Snapshot& snapshot);

// A step of several hosts or tasks: one agent a node or a task, as srun started them. Without a step: alone
// where the job has one node or one was asked for, else not_started with all that is known. The flags of a
// launch by hand are followed where they are complete and no step says otherwise; inside a step they must
// agree with it.
// Throws Error when the variables are another job's, another host's, or contradict each other, and
// UsageError when flags contradict them.
Allocation parse_slurm(const facts::Snapshot& snapshot, const PlaceOptions& options);

}  // namespace ddprun::allocation
