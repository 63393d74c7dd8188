// How the agents of one launch find each other, from the allocation alone.
#pragma once

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/plan/node_plan.hpp"

namespace ddprun {

// Addresses where all agents were told the coordinator's host; else the launcher's exchange where one agent a
// node may use it, else a file in a folder that all hosts share. Which of them follows from what all agents
// of a launch see alike. Throws UsageError for an exchange that is asked for and not there.
RendezvousPlan make_rendezvous_plan(const Allocation& allocation, const Options& options,
                                    const Snapshot& snapshot);

}  // namespace ddprun
