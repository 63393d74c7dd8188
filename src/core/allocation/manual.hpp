// Launches without a scheduler: torchrun's flags on every node, or one host alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "base/sourced.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// The part of the command line that decides where we are (torchrun's spellings).

struct PlaceOptions {
  std::optional<Sourced<int>> nodes;      // --nnodes
  std::optional<Sourced<int>> node_rank;  // --node-rank
  // --master-addr or host part of --rdzv-endpoint; Source::endpoint makes 29400 the default port instead of
  // 29500, as torchrun's c10d does.
  std::optional<Sourced<std::string>> address;
  // MASTER_ADDR of the environment, where nothing above is given: node 0 is probably there.
  std::optional<Sourced<std::string>> likely_address;
  std::optional<Sourced<int>> port;            // --master-port, port part of --rdzv-endpoint, or MASTER_PORT
  std::optional<Sourced<std::string>> run_id;  // --rdzv-id
  std::optional<Sourced<int>> workers_per_node;   // --nproc-per-node as a number
  bool standalone = false;                        // --standalone
  std::optional<Sourced<std::string>> scheduler;  // --scheduler: a detector's name, asked instead of all
  std::optional<Sourced<std::vector<std::string>>> hosts;  // --hosts, --hostfile: each once, in that order
};

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
