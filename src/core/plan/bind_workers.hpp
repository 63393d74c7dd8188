// Binding as part of a plan: effects of the allocation, the devices and the host's other agents on placement.
#pragma once

#include "allocation/allocation.hpp"
#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "plan/launch_plan.hpp"

namespace ddprun::plan {

// Binds the planned workers. Before the agents have met the assignment has no local peers, and agents of one
// host that seem to share their CPUs are taken to be alike. Agents with CPUs of their own keep them; those
// that share a mask share out its cores, each computing the same answer.
void bind_workers(LaunchPlan& plan, const facts::Snapshot& snapshot);

// Reports whether the plan needs a topology. False if the plan is the same without: the only worker of the
// job has all CPUs of its host, and no GPU or network card whose place matters. `snapshot.host.gpus` are
// those that the kernel shows.
bool needs_topology(const options::Options& options, const allocation::Allocation& allocation,
                    const facts::Snapshot& snapshot);

}  // namespace ddprun::plan
