// A worker's place and environment as far as they are known before the agents have met: what --dry-run shows.
#pragma once

#include <string>
#include <vector>

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/plan/node_plan.hpp"
#include "ddprun/plan/world_plan.hpp"

namespace ddprun {

// This agent's share as it follows from the plan alone; address empty and port 0 where the rendezvous
// decides.
Assignment make_expected_assignment(const NodePlan& plan);

struct ExpectedVariable {
  VariableChange change;  // without a value where it is removed or open
  std::string open;       // "(a free port of n1)": what the start will put there; empty: decided
};

// The changes of the real run for one of `assignment`'s workers.
std::vector<ExpectedVariable> expected_variables(const NodePlan& plan, const Assignment& assignment,
                                                 const Environment& environment, std::size_t worker);

}  // namespace ddprun
