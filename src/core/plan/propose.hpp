// Offer of this ddprun process, made from an allocation.
#pragma once

#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::plan {

// Additions of a site's profile to an agent's offer.

// Adds the profile's names and ports to where the agents look for each other, unless the user gave them or
// the scheduler reserved ports, and says where named interfaces are missing.
void apply_site(NodeProposal& node, const facts::Snapshot& snapshot);

// Proposes for an allocation in which this process has its place (selflaunch/remote_launcher.hpp:
// detect_started). Throws Error or UsageError for a launch that cannot be right or is past a limit.
NodeProposal propose(const facts::Snapshot& snapshot, const options::Options& options,
                     allocation::Allocation allocation);

// Proposes only to join, with no workers: for an agent that has nothing to start and only reports that to the
// others. Needs less than propose, and throws like it.
NodeProposal propose_to_join(const facts::Snapshot& snapshot, const options::Options& options,
                             allocation::Allocation allocation);

// Proposes anew for an agent that assumed it was alone on its node, once the coordinator found that every
// agent stands for one worker: one worker, with the launcher's rank.
NodeProposal propose_as_task(const NodeProposal& node, const facts::Snapshot& snapshot);

// Proposes anew for an agent that does not see the tasks that the job's script asked for, once the
// coordinator has told it its own.
NodeProposal propose_for_tasks(const NodeProposal& node, int tasks, const facts::Snapshot& snapshot);

// Returns the workers of each node where the tasks of the job decide (NodeProposal::for_tasks); empty where
// that is not known of all nodes.
std::vector<int> workers_of_nodes(const NodeProposal& node);

// Proposes anew for an agent that would have coordinated, if another one of its host does
// (RendezvousPlan::by_arrival).
NodeProposal propose_as_member(const NodeProposal& node);

}  // namespace ddprun::plan
