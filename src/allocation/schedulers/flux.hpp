// Where we are according to Flux: a task of flux run, or the initial program of an instance (flux alloc,
// flux batch), which no variable tells the hosts of.
#pragma once

#include "allocation/allocation.hpp"
#include "allocation/place_options.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// A task, or inside an instance.
bool has_flux_job(const facts::Snapshot& snapshot);

// Throws Error for an initial program that does not say how many nodes to use.
Allocation parse_flux(const facts::Snapshot& snapshot, const PlaceOptions& options);

}  // namespace ddprun::allocation
