// From an allocation to the plan of this ddprun process.
#pragma once

#include "ddprun/plan/node_plan.hpp"

namespace ddprun {

// Of an allocation in which this process has its place (selflaunch/remote_launcher.hpp: detect_started).
// Throws Error or UsageError for a launch that cannot be right or is past a limit.
NodePlan make_node_plan(const Snapshot& snapshot, const Options& options, Allocation allocation);

// Only where the agents meet, with no workers: for an agent that has nothing to start and can but tell the
// others. Needs less than make_node_plan, and throws like it.
NodePlan make_join_plan(const Snapshot& snapshot, const Options& options, Allocation allocation);

// The plan of an agent that assumed it was alone on its node, once the coordinator found that every agent
// stands for one worker: one worker, with the launcher's rank.
NodePlan replan_as_task(const NodePlan& plan, const Snapshot& snapshot);

}  // namespace ddprun
