// Restriction of this process to as many cores as its job was granted, where the scheduler leaves that to it.
// They are others than those of other ddprun processes here.
#pragma once

#include "os/core_claims.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::probes {

// Returns the plan for the cores that were had: `plan` itself if there is nothing to follow. The claims have
// to outlive the workers.
plan::NodeProposal keep_to_granted_cpus(plan::NodeProposal node, facts::Snapshot& snapshot,
                                        os::CoreClaims& claims);

}  // namespace ddprun::probes
