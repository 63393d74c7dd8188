// Places of hosts in the network, from what schedulers and sites say of it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::allocation {

struct NetworkPlace {
  std::optional<int> position;  // in an order that the user gave; hosts with one come first
  std::string switches;         // names from the root to the host's leaf switch: "s0/leaf1"; empty: not known
  std::string domain;           // NVLink domain, as its cluster's UUID and clique; empty: none
  friend bool operator==(const NetworkPlace&, const NetworkPlace&) = default;
};

// Key: the host's short name in lower case.
using NetworkPlaces = std::map<std::string, NetworkPlace>;

inline constexpr std::size_t k_order_file_limit = 4 << 20;
// Key among the files of a snapshot: what this command printed.
inline constexpr std::string_view k_shown_topology = "scontrol show topology";

// Returns the switches of SLURM_TOPOLOGY_ADDR ("s0.leaf2.n17", "switch.switch.node"; srun(1)); empty where
// Slurm knows none. The names of topology/block are blocks.
std::string parse_topology_address(std::string_view address, std::string_view pattern);

// Reads `scontrol show topology` of topology/tree and topology/block.
NetworkPlaces parse_shown_topology(std::string_view text);

// Reads lines of "HOSTS" or "HOSTS SWITCHES", where HOSTS is a host list as in "n[1-4]" and SWITCHES as in
// "s0/leaf1"; # begins a comment. Without switches the lines are the order. Throws UsageError that names
// `source` and the line.
NetworkPlaces parse_host_order(std::string_view text, const std::string& source);

// Returns the cabinet and chassis of a host whose name is its place in an HPE Cray EX system: "x3004/c0" for
// x3004c0s13b0n0. Empty for any other name.
std::string find_cabinet(std::string_view host);

}  // namespace ddprun::allocation
