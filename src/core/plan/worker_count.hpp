// Number of workers that an agent starts, and of cores that each may use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "facts/binding.hpp"
#include "options/options.hpp"
#include "placement/devices.hpp"

namespace ddprun::plan {

// Returns the number of ddprun processes on this host.
int tasks_on_this_host(const allocation::Allocation& allocation);

// Returns the source of the number of tasks, for one ddprun per task.
const std::string& tasks_origin(const allocation::Allocation& allocation);

// Returns the tasks that the job's script asked for on this host; 0 if it asked for none, or for one a host.
Sourced<int> asked_tasks_here(const allocation::Allocation& allocation, const facts::Snapshot& snapshot);
// Reports whether those tasks decide how many workers this agent has, as far as they are known: it sees no
// GPU, and neither the user nor the place of this node gives a number.
bool is_for_tasks(const allocation::Allocation& allocation, const options::Options& options,
                  const placement::VisibleDevices& devices);

// Counts one worker for each task if the scheduler started those; else what --nproc-per-node says, else one
// for each --gpus-per-worker GPUs this process may use, else for each task of the job's script, else 1.
// Throws Error if GPUs are asked for and none is visible, and for more than k_max_workers; UsageError if the
// GPUs cannot be shared out as asked for.
Sourced<int> count_workers(const allocation::Allocation& allocation, const options::Options& options,
                           const facts::Snapshot& snapshot, const placement::VisibleDevices& devices);

// Returns OMP_NUM_THREADS of workers that are not bound: the cores of this agent's mask, or the cgroup's
// limit if that is lower, for each worker. Several agents of a host that all see the same CPUs share them. 0
// if the user has set it.
Sourced<int> count_threads(const allocation::Allocation& allocation, const facts::Snapshot& snapshot,
                           int workers);

// Reports whether several agents of a host all see the same CPUs: their masks together are larger than what
// was granted.
bool shares_mask(const allocation::Allocation& allocation, const facts::Snapshot& snapshot);

// Returns the same if each worker has CPUs of its own: the physical cores of the smallest binding, since the
// ranks of a world wait for each other. As count_threads() if a worker is not bound.
Sourced<int> threads_of_bindings(const allocation::Allocation& allocation, const facts::Snapshot& snapshot,
                                 const std::vector<facts::Binding>& bindings);

// Return a notice if a count is odd, with a hint how to get what was probably meant.
std::optional<allocation::Notice> find_unused_count(const allocation::Allocation& allocation,
                                                    const options::Options& options);
// Returns a notice for a job that asked for several tasks, but not for as many as its GPUs get workers.
std::optional<allocation::Notice> find_other_tasks(const allocation::Allocation& allocation,
                                                   const options::Options& options,
                                                   const facts::Snapshot& snapshot,
                                                   const placement::VisibleDevices& devices, int workers);
// Returns a notice if the user set OMP_NUM_THREADS and a worker has fewer CPUs; two threads a core are a
// choice if the core has two hardware threads.
std::optional<allocation::Notice> find_many_threads(const allocation::Allocation& allocation,
                                                    const facts::Snapshot& snapshot, const std::string& host,
                                                    const std::vector<facts::Binding>& bindings);
// Returns a notice for more workers than cores, or a single core although the scheduler granted more: a
// launcher's binding that the user did not ask for.
std::optional<allocation::Notice> find_crowded_cores(const allocation::Allocation& allocation,
                                                     const facts::Snapshot& snapshot, const std::string& host,
                                                     int workers);

}  // namespace ddprun::plan
