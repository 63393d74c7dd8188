// The hosts of a launch: their number, and differences between them that should not be there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/manual.hpp"
#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"
#include "plan/world_plan.hpp"

namespace ddprun::plan {

// Number of hosts: what an MPI launcher's agents may expect, and what is said of nodes that are lost.

// Jobs that go on without a node: what of it is known before the rendezvous.

// Returns the hosts of --spares: the last nodes wait, as long as all others come. Empty if the hosts are not
// known.
std::vector<std::string> spare_hosts(const RendezvousPlan& rendezvous, const options::Options& options);
// Reports whether this agent is a spare, as far as its number is known before the rendezvous.
bool is_spare(const RendezvousPlan& rendezvous, const options::Options& options);

// Throws UsageError where there are too many spares for the nodes, or several agents on one.
void check_spares(const NodeProposal& node);

// Reports whether an agent of a fixed number of nodes may be started again by whoever started it: a person,
// or a place such as Kubernetes that restarts a pod alone. srun, mpiexec and a front end do not.
bool may_be_started_again(const NodeProposal& node);

// Returns a notice if the launcher ends all agents with the first that is lost, as MPICH 4.0, Open MPI 4.1
// and 5.0 and PRRTE do without further options, or with a node that fails, as srun does. nullopt if it is not
// known which options srun has (facts::StepOptions).
std::optional<allocation::Notice> find_strict_launcher(const NodeProposal& node,
                                                       const facts::Snapshot& snapshot);

struct ExpectedNodes {
  std::optional<Sourced<int>> asked;  // --nnodes
  Sourced<int> of_job;                // hosts of the whole job; 0 when unknown
  std::string launcher;               // "hydra"
  std::string one_a_node;             // "mpiexec -n {0} -ppn 1"
};

// Returns the expectation of this agent; nullopt if the launcher did not choose the hosts.
std::optional<ExpectedNodes> expect_nodes(const allocation::Allocation& allocation,
                                          const allocation::PlaceOptions& options,
                                          const facts::Snapshot& snapshot);

// Throws Error, with a hint, where --nnodes asked for another number of hosts; a notice where the job has
// more and fewer were not asked for.
std::optional<allocation::Notice> check_node_count(const std::vector<Announcement>& announcements,
                                                   const WorldPlan& world, const ExpectedNodes& expected);

// Differences between the hosts of a launch that should not be there.
// They are GPUs that are promised and not visible, numbers of workers since the hosts have different numbers
// of GPUs or CPUs, and the Python with its torch.

// Describes missing GPUs. `missing` is a VisibleDevices::missing; `hosts` as a host list.
allocation::Notice describe_missing_gpus(const std::string& hosts, const std::string& missing);

// Finds differences in the coordinator's view of all hosts: at most one notice for each way in which GPUs are
// missing, and one for numbers of workers that differ if no number was given.
std::vector<allocation::Notice> find_unlike_gpus(const std::vector<Announcement>& announcements);

// Finds hosts whose workers are more than the CPUs that they may use. At most one notice; nothing is known of
// hosts whose workers are not bound.
std::optional<allocation::Notice> find_crowded_hosts(const std::vector<Announcement>& announcements);

// Returns one notice that names the hosts of each combination; nullopt if they agree. An agent that found no
// torch says nothing about it: in a container it may be elsewhere.
std::optional<allocation::Notice> find_unlike_python(const std::vector<Announcement>& announcements);

}  // namespace ddprun::plan
