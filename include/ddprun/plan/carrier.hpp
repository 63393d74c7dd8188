// Who starts ddprun on the hosts of an allocation that has no step yet, and by which command line.
#pragma once

#include "ddprun/allocation/allocation.hpp"
#include "ddprun/facts/snapshot.hpp"
#include "ddprun/plan/options.hpp"

namespace ddprun {

// Throws Error with the line that starts one agent on every node where the allocation is not started.
void refuse_unstarted(const Allocation& allocation, const Options& options, const Snapshot& snapshot);

}  // namespace ddprun
