// Additions of a site's profile to an agent's offer.
#pragma once

#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::plan {

// Adds the profile's names and ports to where the agents look for each other, unless the user gave them or
// the scheduler reserved ports, and says where named interfaces are missing.
void apply_site(NodeProposal& node, const facts::Snapshot& snapshot);

}  // namespace ddprun::plan
