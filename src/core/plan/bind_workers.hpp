// Binding as part of a plan: effects of the allocation, the devices and the host's other agents on placement.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "plan/finalise.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::plan {

// Cores of a job whose scheduler grants some of a host's but enforces nothing: PBS without the cgroups hook.
// Its jobs may use the whole host, so two of them would begin with the same cores.
struct GrantedCores {
  int count = 0;       // 0: this process' mask is all there is to follow
  std::string origin;  // "NCPUS"
  // All cores of the mask by their CPUs, in the order in which they are wanted: those near the workers' GPUs
  // first, one for each in turn.
  std::vector<std::vector<int>> cores;
};

GrantedCores find_granted_cores(const NodeProposal& node, const facts::Snapshot& snapshot);

// Describes that other jobs hold so many cores that this one cannot get its own.
allocation::Notice describe_held_cores(const std::string& host, const GrantedCores& granted);

// Consequences of the workers' bindings: threads, places of OpenMP, nearest network cards.

// Fills LaunchPlan::threads and each worker's network_card and omp_places from the bindings.
void follow_binding(LaunchPlan& plan, const facts::Snapshot& snapshot);

// Returns a notice for --nic without a card to name.
std::optional<allocation::Notice> find_many_threads(const LaunchPlan& plan, const facts::Snapshot& snapshot);
std::optional<allocation::Notice> find_no_card(const LaunchPlan& plan, const facts::Snapshot& snapshot);

// Renders one place a core, "{0,64},{1,65}": the hardware threads of each that are among `cpus` (ascending).
// Without a topology every CPU is a place.
std::string render_omp_places(const std::vector<int>& cpus, const std::optional<facts::Topology>& topology);

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
