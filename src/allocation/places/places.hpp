// Which place started this process, and the launch that follows from it.
#pragma once

#include <optional>

#include "allocation/places/place.hpp"

namespace ddprun::allocation {

// The most specific place first; nothing where no place shows, or this process is a worker of another
// launcher. Throws Error for a place that contradicts itself or says too little, naming the variable.
std::optional<FoundPlace> find_place(const facts::Snapshot& snapshot, const PlaceOptions& options);

// One agent a node, as parse_manual makes it of flags; alone where the place has one node. Flags count for
// more than the place. Throws UsageError where --nnodes contradicts it.
Allocation follow_place(const FoundPlace& place, const facts::Snapshot& snapshot,
                        const PlaceOptions& options);

// What to say where variables of several nodes are set, but this process is a worker of another launcher or
// node 0 is "localhost", so that they are not followed; nothing where none is.
std::optional<Notice> find_unfollowed_place(const facts::Snapshot& snapshot, const PlaceOptions& options);

}  // namespace ddprun::allocation
