// Offer of this ddprun process, made from an allocation.
#pragma once

#include "plan/node_proposal.hpp"

namespace ddprun::plan {

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

// Proposes anew for an agent that would have coordinated, if another one of its host does
// (RendezvousPlan::by_arrival).
NodeProposal propose_as_member(const NodeProposal& node);

}  // namespace ddprun::plan
