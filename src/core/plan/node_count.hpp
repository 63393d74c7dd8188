// Number of hosts: what an MPI launcher's agents may expect, and what is said of nodes that are lost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/place_options.hpp"
#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"
#include "plan/world_plan.hpp"

namespace ddprun::plan {

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

}  // namespace ddprun::plan
