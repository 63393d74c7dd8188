// Address named by --local-addr, checked before other hosts are given it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/node_proposal.hpp"

namespace ddprun::plan {

// Chooses the address of this host that the user's word leads to; `leads_to` are numeric, the name service's
// answer for a name. nullopt for this host's own name if it leads to loopback, as on Debian: then it says no
// more than no option. A coordinator keeps an address that is not its own (an address translator's): the
// others prove it. Throws UsageError for loopback with several agents and for another host's address.
std::optional<Sourced<std::string>> choose_local_address(const Sourced<std::string>& given,
                                                         const std::vector<std::string>& leads_to,
                                                         const NodeProposal& node,
                                                         const facts::HostFacts& host);

}  // namespace ddprun::plan
