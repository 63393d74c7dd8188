// Order of hosts in which those of a switch, and those of an NVLink domain, follow each other.
// Collectives that pass data from rank to rank then leave a switch as seldom as the hosts allow.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "allocation/network_place.hpp"
#include "plan/node_proposal.hpp"
#include "plan/world_plan.hpp"

namespace ddprun::plan {

// Returns the indices of the places in the order of the network: a switch's and a domain's hosts follow each
// other where its first host stands; all else stays as it is. A domain that spans switches is whole.
std::vector<std::size_t> order_by_network(const std::vector<allocation::NetworkPlace>& places);

// Counts, in a ring of all places in that order, the steps to another leaf switch or NVLink domain.
int count_crossings(const std::vector<allocation::NetworkPlace>& places,
                    const std::vector<std::size_t>& order);

// Returns the number of parts that both have in common: a domain counts more than all switches.
int closeness(const allocation::NetworkPlace& one, const allocation::NetworkPlace& other);

// Names what is kept whole: "NVLink domain 7f3c.1", else "switch s0/leaf1"; empty if neither is known.
std::string unit_of(const allocation::NetworkPlace& place);

// Returns a notice about agents that cannot be ordered by the network; they keep the order of the scheduler.
std::optional<allocation::Notice> find_unordered(const std::vector<Announcement>& announcements);

// Returns the switches of this host that srun or the host's name tells; empty: neither does.
Sourced<std::string> find_own_switches(const facts::Snapshot& snapshot, const std::string& host);

// Reports whether only `scontrol show topology` tells the places: within a Slurm job, for the hosts that a
// plan shows, and for this one where srun has not said its own.
bool asks_for_topology(const options::Options& options, const allocation::Allocation& allocation,
                       const facts::Snapshot& snapshot);

// Finds this host's place, and the order of all agents as far as it is known before the rendezvous. Throws
// UsageError where the launcher has given the ranks, and for a bad file.
void apply_order(NodeProposal& node, const facts::Snapshot& snapshot);

}  // namespace ddprun::plan
