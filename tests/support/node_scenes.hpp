// Plans whose workers are bound to known machines, to be drawn and printed.
#pragma once

#include <string>
#include <vector>

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/plan/node_plan.hpp"

namespace ddprun::test {

struct NodeScene {
  std::string name;
  Snapshot snapshot;
  NodePlan plan;
};

// A plan that is bound to nothing: `workers` workers of a host on its own with that topology, all of whose
// CPUs are allowed; its GPUs are the topology's.
NodeScene make_scene(const std::string& name, Topology topology, int workers);

std::vector<NodeScene> node_scenes();

}  // namespace ddprun::test
