// Binding as part of a node's plan: what the allocation, the devices and the other agents of the host mean
// for placement.
#pragma once

#include <vector>

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/plan/node_plan.hpp"
#include "ddprun/plan/world_plan.hpp"

namespace ddprun {

// What this agent announces for its local peers: empty where it binds nothing and shows all its devices.
std::string announced_cpus(const NodePlan& plan, const Snapshot& snapshot);
std::vector<LocalPeerWorker> announced_workers(const NodePlan& plan, const Snapshot& snapshot);

// Binds the planned workers. `local_peers` as the assignment tells; before the agents have met it is empty,
// and agents of one host that seem to share their CPUs are taken to be alike. Agents with CPUs of their own
// keep them; those that share a mask share out its cores, each computing the same answer.
void bind_workers(NodePlan& plan, const Snapshot& snapshot, const std::vector<LocalPeer>& local_peers);

}  // namespace ddprun
