// A node as a picture: packages, NUMA nodes, and which cores, GPUs and network cards each rank holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "plan/finalise.hpp"

namespace ddprun::render {

// Draws at most 100 columns for nodes of up to 256 hardware threads. Empty without a topology.
std::string draw_node_text(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot);
// Draws a complete SVG document. Throws Error without a topology.
std::string draw_node_svg(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot);

}  // namespace ddprun::render
