// Topology of a machine by hwloc: of this one, of a file or of a description.
#pragma once

#include <string>

#include "facts/topology.hpp"

namespace ddprun::os {

// Discovers this machine's node, whole, whatever this process may use of it. Throws Error with hwloc's
// reason. To be called in a child, as capture_hardware does: it clears hwloc's variables and keeps what hwloc
// prints. Costs what reading /sys costs, about a millisecond on a small node and some tens on one of 256
// threads.
facts::Topology discover_topology();

// Loads `source`: a file (hwloc's XML, or the JSON of facts/topology.hpp) or hwloc's synthetic description
// such as "pack:2 numa:4 l3:2 core:8 pu:2". hwloc reads it in a child of its own, in 10 s at most; some
// milliseconds for 256 threads. Throws Error naming what is wrong with it and the forms there are.
facts::Topology load_topology(const std::string& source);

}  // namespace ddprun::os
