// The environment of one worker: torchrun's names and spellings, from one global attempt number.
#pragma once

#include <string>
#include <vector>

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/plan/node_plan.hpp"
#include "ddprun/plan/world_plan.hpp"

namespace ddprun {

// Launcher leftovers to remove where one agent starts several workers (they would all carry the agent's own
// rank).
std::vector<VariableChange> scrub_changes(const Environment& environment, const Allocation& allocation,
                                          int workers);

// What differs from the agent's environment for one seat; `error_file` may be empty.
std::vector<VariableChange> worker_changes(const NodePlan& plan, const Assignment& assignment,
                                           const WorkerSeat& seat, const Environment& environment,
                                           const std::string& error_file);

Environment apply_changes(Environment environment, const std::vector<VariableChange>& changes);

}  // namespace ddprun
