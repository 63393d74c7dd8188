// Network card of each worker: of those nearest to its GPUs, the one with the fewest workers.
#pragma once

#include <string>
#include <vector>

#include "base/ids.hpp"
#include "facts/topology.hpp"

namespace ddprun::placement {

struct CardSeeker {
  LocalRank local_rank;                // spreads agents that do not know of each other
  std::vector<std::string> addresses;  // PCI, as sysfs writes them, of its GPUs; empty: none is known
  std::vector<int> cpus;               // ascending; used where no GPU tells more
};

// Returns for each seeker the RDMA device ("mlx5_2") or the Slingshot one ("cxi0"); empty: there is none that
// could be used. Cards without an active port are none, nor are EFA cards, nor Ethernet ones beside as many
// InfiniBand ones. Nearest is the card that shares most bridges with one of its GPUs, then one that has CPUs
// in common with them, then one in their package, then one at the least distance.
std::vector<std::string> choose_network_cards(const facts::Topology& topology,
                                              const std::vector<CardSeeker>& seekers);

// Returns the reason why there is none: "no port of mlx5_0 is active on n1".
std::string why_no_card(const facts::Topology& topology, const std::string& host);

// The variable that takes such a name, and its value: NCCL_IB_HCA "=mlx5_2" (exactly that one),
// FI_CXI_DEVICE_NAME "cxi0".
struct CardVariable {
  std::string name;
  std::string value;
};
CardVariable card_variable(const std::string& card);

}  // namespace ddprun::placement
