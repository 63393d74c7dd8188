// Number of workers that the GPUs of a host are for, and errors if they are not enough.
#pragma once

#include <optional>
#include <string>

#include "allocation/allocation.hpp"
#include "options/options.hpp"
#include "placement/devices.hpp"

namespace ddprun::plan {

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
