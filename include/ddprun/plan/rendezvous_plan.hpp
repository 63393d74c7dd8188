// How the agents of one launch find each other, from the allocation alone.
#pragma once

#include <string>

#include "ddprun/plan/node_plan.hpp"

namespace ddprun {

// Who coordinates, which number this agent has, and where members look: names, addresses and ports. The other
// ways of meeting are choose_meeting_ways'. `host` is this one's own name.
RendezvousPlan make_rendezvous_plan(const Allocation& allocation, const Options& options,
                                    const std::string& host);

}  // namespace ddprun
