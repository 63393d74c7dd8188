// The plan of a node as the program comes to it.
#pragma once

#include <memory>

#include "ddprun/allocation/detect.hpp"
#include "ddprun/plan/expected_assignment.hpp"
#include "ddprun/plan/finalise.hpp"
#include "ddprun/plan/launch_plan.hpp"
#include "ddprun/plan/propose.hpp"
#include "ddprun/selflaunch/remote_launcher.hpp"

namespace ddprun::test {

inline NodeProposal propose_node(const Snapshot& snapshot, const Options& options) {
  return propose(snapshot, options, detect_started(snapshot, options));
}

// Of the share that the node expects.
inline LaunchPlan plan_node(const Snapshot& snapshot, const Options& options) {
  const auto node = std::make_shared<const NodeProposal>(propose_node(snapshot, options));
  return finalise(node, make_expected_assignment(*node), snapshot);
}

// As above, with these local peers.
inline LaunchPlan plan_node(const Snapshot& snapshot, const Options& options,
                            std::vector<LocalPeer> local_peers) {
  const auto node = std::make_shared<const NodeProposal>(propose_node(snapshot, options));
  Assignment assignment = make_expected_assignment(*node);
  assignment.local_peers = std::move(local_peers);
  return finalise(node, std::move(assignment), snapshot);
}

// The same plan of another node.
template <class Change>
void change_node(LaunchPlan& plan, const Change& change) {
  NodeProposal node = *plan.node;
  change(node);
  plan.node = std::make_shared<const NodeProposal>(std::move(node));
}

// And of a launch on other hosts, where there is one.
inline std::optional<SelfLaunchPlan> plan_self_launch(const Snapshot& snapshot, const Options& options) {
  return make_self_launch_plan(snapshot, options, detect_allocation(snapshot, options.place));
}

}  // namespace ddprun::test
