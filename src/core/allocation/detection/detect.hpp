// Detection of the allocation from a snapshot: a table of detectors, asked in a fixed order.
#pragma once

#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/place_options.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// Detects the allocation. Throws Error or UsageError when the variables contradict each other, belong to
// another job, or make a launch that cannot be right; odd but workable ones come back in Allocation::notices.
// Asked in this order: what a ddprun that started this one said, hosts that the user lists; Flux, Slurm, PBS,
// LSF (if several have left variables, the one whose processes are above this one); without any of them the
// flags of a launch by hand if they are complete, a launcher of MPI processes, by hand, alone. A launcher's
// place goes with the job of the scheduler around it.
// --standalone needs no scheduler: what is wrong with its variables is then only a notice.
Allocation detect_allocation(const facts::Snapshot& snapshot, const PlaceOptions& options);

// Returns the values of --scheduler: "flux", "slurm", "pbs", "lsf", "mpi" (a launcher's variables alone),
// "none".
std::vector<std::string> scheduler_names();

}  // namespace ddprun::allocation
