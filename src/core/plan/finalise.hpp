// Plan of an attempt, made from a proposal and its share of the world, also from the share that is expected.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "plan/launch_plan.hpp"

namespace ddprun::plan {

// A worker's place and environment as far as they are known before the agents have met: what --dry-run shows.

// Returns this agent's share as it follows from its proposal alone; address empty and port 0 if the
// rendezvous decides.
Assignment make_expected_assignment(const NodeProposal& node);

struct ExpectedVariable {
  VariableChange change;  // without a value where it is removed or open
  std::string open;       // "(a free port of n1)": what the start will put there; empty: decided
};

// Returns the changes of the real run for one of the workers of a plan that was made of the expected
// assignment.
std::vector<ExpectedVariable> expected_variables(const LaunchPlan& plan,
                                                 const facts::Environment& environment, std::size_t worker);

// Makes the plan of an attempt. `snapshot` is the one of the proposal. Throws Error if the assignment is for
// another number of workers than was offered, UsageError if the workers cannot be bound as was asked.
LaunchPlan finalise(std::shared_ptr<const NodeProposal> node, Assignment assignment,
                    const facts::Snapshot& snapshot);

}  // namespace ddprun::plan
