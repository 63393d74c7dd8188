// The plan of a node as the program comes to it.
#pragma once

#include <memory>

#include "allocation/detection/detect.hpp"
#include "plan/finalise.hpp"
#include "plan/propose.hpp"
#include "selflaunch/remote_launcher.hpp"

namespace ddprun::test {

inline plan::NodeProposal propose_node(const facts::Snapshot& snapshot, const options::Options& options) {
  return plan::propose(snapshot, options, selflaunch::detect_started(snapshot, options));
}

// Of the share that the node expects.
inline plan::LaunchPlan plan_node(const facts::Snapshot& snapshot, const options::Options& options) {
  const auto node = std::make_shared<const plan::NodeProposal>(propose_node(snapshot, options));
  return plan::finalise(node, plan::make_expected_assignment(*node), snapshot);
}

// As above, with these local peers.
inline plan::LaunchPlan plan_node(const facts::Snapshot& snapshot, const options::Options& options,
                                  std::vector<plan::LocalPeer> local_peers) {
  const auto node = std::make_shared<const plan::NodeProposal>(propose_node(snapshot, options));
  plan::Assignment assignment = plan::make_expected_assignment(*node);
  assignment.local_peers = std::move(local_peers);
  return plan::finalise(node, std::move(assignment), snapshot);
}

// The same plan of another node.
template <class Change>
void change_node(plan::LaunchPlan& plan, const Change& change) {
  plan::NodeProposal node = *plan.node;
  change(node);
  plan.node = std::make_shared<const plan::NodeProposal>(std::move(node));
}

// And of a launch on other hosts, where there is one.
inline std::optional<selflaunch::SelfLaunchPlan> plan_self_launch(const facts::Snapshot& snapshot,
                                                                  const options::Options& options) {
  return selflaunch::make_self_launch_plan(snapshot, options,
                                           allocation::detect_allocation(snapshot, options.place));
}

}  // namespace ddprun::test
