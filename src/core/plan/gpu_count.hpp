// Number of workers that the GPUs of a host are for, who shares them, and errors if they are not enough.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "placement/devices.hpp"
#include "plan/node_proposal.hpp"
#include "plan/world_plan.hpp"

namespace ddprun::plan {

// Sharing of GPUs between the tasks of a host, if one ddprun runs per task and each task sees one GPU.
// If its workers may see the GPUs of all tasks, they get their real LOCAL_RANK and transfers from GPU to GPU.
// Each agent announces its CPUs and devices for that, and for the bindings.

// Returns the local peers' entries by local rank, for the visibility variable. Empty if it would not be safe:
// each of them has to have one worker with one entry, no two the same GPU, and `gpus` (those this process may
// open) has each one under that entry and at the same PCI address. With device cgroups every task calls its
// GPU number 0 and none can open another's.
std::vector<std::string> find_shared_devices(const std::vector<facts::Gpu>& gpus,
                                             const std::vector<LocalPeer>& local_peers);

// Returns the CPUs to announce; empty if it binds nothing and shows all its devices.
std::string announced_cpus(const NodeProposal& node, const facts::Snapshot& snapshot);
std::vector<LocalPeerWorker> announced_workers(const NodeProposal& node, const facts::Snapshot& snapshot);

// Reports whether --gpus-per-worker or --workers-per-gpu was given: each worker then sees its own GPUs and no
// others.
bool asks_for_gpus(const options::Options& options);

// One worker for each share of the visible GPUs, or several for each GPU (--workers-per-gpu). Throws
// UsageError where there is no GPU, or they cannot be shared out.
Sourced<int> one_for_each_gpu(const options::Options& options, const facts::Snapshot& snapshot,
                              const placement::VisibleDevices& devices);
// `origin`: what asked for it.
Sourced<int> share_out_gpus(const std::string& origin, const options::Options& options,
                            const facts::Snapshot& snapshot, const placement::VisibleDevices& devices);

// Throws UsageError where the workers of this agent are more than its GPUs can hold, as the options ask for.
void check_gpus_of_workers(const Sourced<int>& workers, const options::Options& options,
                           const facts::Snapshot& snapshot, const placement::VisibleDevices& devices);
// The same for one ddprun per task, where each stands for one worker.
void check_gpus_of_tasks(const allocation::Allocation& allocation, const options::Options& options,
                         const facts::Snapshot& snapshot, const placement::VisibleDevices& devices);

std::optional<allocation::Notice> find_too_few_gpus(const placement::VisibleDevices& devices,
                                                    const Sourced<int>& workers,
                                                    const options::Options& options);
// LOCAL_RANK is past the GPUs that each worker sees: scripts take device LOCAL_RANK.
std::optional<allocation::Notice> find_high_local_ranks(const options::Options& options,
                                                        int local_world_size);

}  // namespace ddprun::plan
