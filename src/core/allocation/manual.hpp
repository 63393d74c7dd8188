// Launches without a scheduler: torchrun's flags on every node, or one host alone.
#pragma once

#include "allocation/allocation.hpp"
#include "allocation/place_options.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// Reports whether the flags describe several nodes: --nnodes above 1, or a --node-rank, which makes no sense
// without them.
bool is_manual(const PlaceOptions& options);

// Reports whether the flags say all that is needed to follow them without a scheduler: how many nodes and
// which one.
bool is_complete_manual(const PlaceOptions& options);

// The host name that has to be looked up before it is known whether this host is the one that coordinates;
// empty: none.
std::string name_to_look_up(const facts::Snapshot& snapshot, const PlaceOptions& options);

// Report whether this host is meant, as `address` is written, or by the result of its look-up
// (Snapshot::names).
bool is_own_address(const std::string& address, const facts::HostFacts& host);
bool is_own_name(const std::string& name, const facts::Snapshot& snapshot);

// Returns the launch that the flags describe, with one agent a node. Without a node rank the node with the
// coordinator's address is node 0 and the others are numbered as they come. Throws UsageError when a flag is
// missing, out of range or contradicts another.
Allocation parse_manual(const facts::Snapshot& snapshot, const PlaceOptions& options);

// Returns a launch of this process alone.
Allocation make_alone(const facts::Snapshot& snapshot, const PlaceOptions& options,
                      const std::string& origin);

// Sets the coordinator's address and port by --master-addr, --master-port and --rdzv-endpoint; port 0 is
// "any". Throws UsageError for a port past 65535.
void apply_coordinator_flags(const PlaceOptions& options, Allocation& allocation);

// Reports whether the address is the same for every host of the launch: "localhost", 127.0.0.0/8, ::1.
bool is_loopback_name(std::string_view address);

}  // namespace ddprun::allocation
