// A place: a service that starts one ddprun on each node and says by variables of its own, or a file, which
// node this is. Beside schedulers and MPI launchers, which are asked first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/place_options.hpp"
#include "allocation/variables.hpp"
#include "base/sourced.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// What a row looks at.
struct PlaceView {
  const facts::Snapshot& snapshot;
  const PlaceOptions& options;  // the flags: they count for more
  Variables variables;
};

// What a place says; each value with the variable or file it came from.
struct FoundPlace {
  Sourced<std::string> name;  // "SkyPilot"
  Sourced<int> nodes;
  Sourced<int> rank;  // of this node, from 0
  // Of node 0, a name or a numeric address. Nothing on a node 0 that the place does not tell its own.
  std::optional<Sourced<std::string>> address;
  std::optional<Sourced<int>> port;                        // the place's, on node 0
  std::optional<Sourced<std::vector<std::string>>> hosts;  // in the order of ranks, as many as `nodes`
  std::optional<Sourced<int>> workers;                     // of a node, 1 or more
  std::optional<Sourced<std::string>> job;                 // the same on all nodes
  std::optional<Sourced<int>> restart_count;
  std::vector<Notice> notices;
};

}  // namespace ddprun::allocation
