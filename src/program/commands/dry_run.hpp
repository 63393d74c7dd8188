// --dry-run: the plan of a launch, in the form that was asked for.
#pragma once

#include "facts/snapshot.hpp"
#include "plan/launch_plan.hpp"

namespace ddprun::commands {

// Returns the exit code.
int print_plan(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot);

}  // namespace ddprun::commands
