// MASTER_ADDR and MASTER_PORT in the environment as batch scripts export them, and this node's own address.
//
// The port counts as --master-port does. The address says where node 0 probably is: it may be left from
// another host, so it is tried first and the scheduler's address beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::plan {

// Address named by --local-addr, checked before other hosts are given it.

// Chooses the address of this host that the user's word leads to; `leads_to` are numeric, the name service's
// answer for a name. nullopt for this host's own name if it leads to loopback, as on Debian: then it says no
// more than no option. A coordinator keeps an address that is not its own (an address translator's): the
// others prove it. Throws UsageError for loopback with several agents and for another host's address.
std::optional<Sourced<std::string>> choose_local_address(const Sourced<std::string>& given,
                                                         const std::vector<std::string>& leads_to,
                                                         const NodeProposal& node,
                                                         const facts::HostFacts& host);

struct MasterVariables {
  std::optional<Sourced<std::string>> address;
  std::optional<Sourced<int>> port;
};

// Leaves out empty and invalid values, and returns none in a worker of another launch, where both are the
// address of a store in use.
MasterVariables read_master_variables(const facts::Environment& environment);

// Returns MASTER_ADDR if it is this host, as the place of rank 0 in a launch of one agent.
std::optional<Sourced<std::string>> find_own_master_address(const allocation::PlaceOptions& options,
                                                            const facts::HostFacts& host);

// Puts the likely address before those that the scheduler tells.
void try_likely_address_first(Sourced<std::vector<std::string>>& addresses,
                              const allocation::Allocation& allocation,
                              const allocation::PlaceOptions& options);

// Returns a notice for each variable that is set and not followed, with the reason.
std::vector<allocation::Notice> find_unfollowed_master(const NodeProposal& node,
                                                       const facts::Snapshot& snapshot);

// Returns the hint for a port of node 0 that is taken.
std::string other_port_hint(const std::optional<Sourced<int>>& port);

}  // namespace ddprun::plan
