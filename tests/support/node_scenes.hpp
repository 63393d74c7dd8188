// Plans whose workers are bound to known machines, to be drawn and printed.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "plan/finalise.hpp"
#include "random_seed.hpp"  // of random_scene

namespace ddprun::test {

struct NodeScene {
  std::string name;
  facts::Snapshot snapshot;
  plan::LaunchPlan plan;
};

// The plan of a host on its own that has this topology and may use all of it; its GPUs are the topology's.
// Nothing is bound, and no worker holds a device.
NodeScene make_scene(const std::string& name, facts::Topology topology, int workers);

// All that have a name, made once.
const std::vector<NodeScene>& node_scenes();
NodeScene scene_of(const std::string& name);

// A node of at most 256 hardware threads whose workers hold any CPUs and GPUs: also what no placement would
// do.
NodeScene random_scene(std::mt19937& random);

}  // namespace ddprun::test
