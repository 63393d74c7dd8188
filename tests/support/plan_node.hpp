// The plan of a node as the program comes to it.
#pragma once

#include "ddprun/allocation/detect.hpp"
#include "ddprun/plan/make_node_plan.hpp"
#include "ddprun/plan/node_plan.hpp"
#include "ddprun/selflaunch/remote_launcher.hpp"

namespace ddprun::test {

inline NodePlan plan_node(const Snapshot& snapshot, const Options& options) {
  return make_node_plan(snapshot, options, detect_started(snapshot, options));
}

// And of a launch on other hosts, where there is one.
inline std::optional<SelfLaunchPlan> plan_self_launch(const Snapshot& snapshot, const Options& options) {
  return make_self_launch_plan(snapshot, options, detect_allocation(snapshot, options.place));
}

}  // namespace ddprun::test
