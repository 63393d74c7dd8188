// Where the relays to the store of an attempt find the next one.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/world_plan.hpp"

namespace ddprun::rendezvous {

// By the order of the announcements: where the relay of each agent connects to; its parent first, then the
// store itself, should the parent not be reached. Nothing for `root`, whose agent serves the store, and for
// all where it serves no relays. No agent has more than `fan_out` children, and hosts that follow each other
// are near each other.
std::vector<std::vector<plan::StorePlace>> make_store_tree(
    const std::vector<plan::Announcement>& announcements, std::size_t root, int fan_out);

}  // namespace ddprun::rendezvous
