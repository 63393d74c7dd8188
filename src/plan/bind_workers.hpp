// Binding as part of a plan: what the allocation, the devices and the other agents of the host mean for
// placement.
#pragma once

#include "facts/snapshot.hpp"
#include "plan/launch_plan.hpp"

namespace ddprun::plan {

// Binds the planned workers. Before the agents have met the assignment has no local peers, and agents of one
// host that seem to share their CPUs are taken to be alike. Agents with CPUs of their own keep them; those
// that share a mask share out its cores, each computing the same answer.
void bind_workers(LaunchPlan& plan, const facts::Snapshot& snapshot);

}  // namespace ddprun::plan
