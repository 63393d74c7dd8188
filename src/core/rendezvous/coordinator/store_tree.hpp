// Tree of the relays to the store of an attempt.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/world_plan.hpp"

namespace ddprun::rendezvous {

// Returns, in the order of the announcements, the stores that each agent's relay tries: its parent first,
// then the root in case the parent cannot be reached. Empty for `root`, whose agent serves the store, and for
// every agent if it serves no relays. No agent has more than `fan_out` children; neighbours in the order are
// near each other.
std::vector<std::vector<plan::StorePlace>> make_store_tree(
    const std::vector<plan::Announcement>& announcements, std::size_t root, int fan_out);

}  // namespace ddprun::rendezvous
