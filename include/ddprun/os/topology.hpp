// The only file that speaks to hwloc.
#pragma once

#include <string>

#include "ddprun/facts/topology.hpp"

namespace ddprun {

// This machine's node. Throws Error with hwloc's reason. Costs what reading /sys costs, some milliseconds on
// a small node and some tens on a large one.
Topology discover_topology();

// `source` is a file (hwloc's XML, or the JSON of facts/topology.hpp) or hwloc's synthetic description such
// as "pack:2 numa:4 l3:2 core:8 pu:2". Throws Error naming what is wrong with it and the forms there are.
Topology load_topology(const std::string& source);

}  // namespace ddprun
