// MASTER_ADDR and MASTER_PORT of ddprun's own environment, which batch scripts made for srun and python
// export.
//
// The port counts as --master-port does. The address says where node 0 probably is: it may be left from
// another host, so it is tried first and what the scheduler tells beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::plan {

struct MasterVariables {
  std::optional<Sourced<std::string>> address;
  std::optional<Sourced<int>> port;
};

// Nothing for what is empty or cannot be used, and in a worker of another launch, where both are the address
// of a store in use.
MasterVariables read_master_variables(const facts::Environment& environment);

// Where rank 0 is in a launch of one agent: MASTER_ADDR, where that is this host.
std::optional<Sourced<std::string>> find_own_master_address(const allocation::PlaceOptions& options,
                                                            const facts::HostFacts& host);

// Puts the likely address before those that the scheduler tells.
void try_likely_address_first(Sourced<std::vector<std::string>>& addresses,
                              const allocation::Allocation& allocation,
                              const allocation::PlaceOptions& options);

// What is set and not followed, and why.
std::vector<allocation::Notice> find_unfollowed_master(const NodeProposal& node,
                                                       const facts::Snapshot& snapshot);

// What to do where the port of node 0 is taken.
std::string other_port_hint(const std::optional<Sourced<int>>& port);

}  // namespace ddprun::plan
