// Numeric addresses by which other hosts may reach this one.
#pragma once

#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::peers {

// Returns the addresses without loopback and link-local ones. IPv4 before IPv6: torch tries and complains
// about IPv6 first where only IPv4 works.
std::vector<std::string> crossing_addresses(const std::vector<facts::InterfaceAddress>& all);

// Settles --local-addr as the address that is meant on this host, which may need the name service. Throws
// UsageError if it is none of this host's.
void settle_local_address(plan::NodeProposal& node, const facts::Snapshot& snapshot);

}  // namespace ddprun::peers
