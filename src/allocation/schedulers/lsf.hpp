// Where we are according to LSF, which tells a job and its hosts. Ranks are the business of jsrun or an MPI
// launcher.
#pragma once

#include "allocation/allocation.hpp"
#include "allocation/place_options.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// A job id is set.
bool has_lsf_job(const facts::Snapshot& snapshot);

// Throws Error for malformed lists of hosts and the variables of another job.
Allocation parse_lsf(const facts::Snapshot& snapshot, const PlaceOptions& options);

}  // namespace ddprun::allocation
