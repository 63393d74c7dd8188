// Sharing of GPUs between the tasks of a host, if one ddprun runs per task and each task sees one GPU.
// If its workers may see the GPUs of all tasks, they get their real LOCAL_RANK and transfers from GPU to GPU.
// Each agent announces its CPUs and devices for that, and for the bindings.
#pragma once

#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"
#include "plan/world_plan.hpp"

namespace ddprun::plan {

// Returns the local peers' entries by local rank, for the visibility variable. Empty if it would not be safe:
// each of them has to have one worker with one entry, no two the same GPU, and `gpus` (those this process may
// open) has each one under that entry and at the same PCI address. With device cgroups every task calls its
// GPU number 0 and none can open another's.
std::vector<std::string> find_shared_devices(const std::vector<facts::Gpu>& gpus,
                                             const std::vector<LocalPeer>& local_peers);

// Returns the CPUs to announce; empty if it binds nothing and shows all its devices.
std::string announced_cpus(const NodeProposal& node, const facts::Snapshot& snapshot);
std::vector<LocalPeerWorker> announced_workers(const NodeProposal& node, const facts::Snapshot& snapshot);

}  // namespace ddprun::plan
