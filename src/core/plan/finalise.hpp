// Plan of an attempt, made from a proposal and its share of the world.
#pragma once

#include <memory>

#include "facts/snapshot.hpp"
#include "plan/launch_plan.hpp"

namespace ddprun::plan {

// Makes the plan of an attempt. `snapshot` is the one of the proposal. Throws Error if the assignment is for
// another number of workers than was offered, UsageError if the workers cannot be bound as was asked.
LaunchPlan finalise(std::shared_ptr<const NodeProposal> node, Assignment assignment,
                    const facts::Snapshot& snapshot);

}  // namespace ddprun::plan
