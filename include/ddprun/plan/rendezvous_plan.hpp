// How the agents of one launch find each other, from the allocation alone.
#pragma once

#include <string>

#include "ddprun/plan/node_plan.hpp"

namespace ddprun {

// In a launch key: what follows is a digest of the command line, where nothing else names the launch.
inline constexpr const char* k_command_mark = "/command-";

// Who coordinates, which number this agent has, and where members look: names, addresses and ports. The other
// ways of meeting are choose_meeting_ways'.
RendezvousPlan make_rendezvous_plan(const Allocation& allocation, const Options& options,
                                    const Snapshot& snapshot);

}  // namespace ddprun
