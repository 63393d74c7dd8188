// CPUs and devices that an agent announces to its local peers, for their bindings and its own.
#pragma once

#include <vector>

#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"
#include "plan/world_plan.hpp"

namespace ddprun::plan {

// Returns the CPUs to announce; empty if it binds nothing and shows all its devices.
std::string announced_cpus(const NodeProposal& node, const facts::Snapshot& snapshot);
std::vector<LocalPeerWorker> announced_workers(const NodeProposal& node, const facts::Snapshot& snapshot);

}  // namespace ddprun::plan
