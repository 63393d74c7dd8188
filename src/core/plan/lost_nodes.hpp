// Jobs that go on without a node: what of it is known before the rendezvous.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/node_proposal.hpp"

namespace ddprun::plan {

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

}  // namespace ddprun::plan
