// How the agents of one launch find each other, from the allocation alone.
#pragma once

#include "ddprun/plan/node_plan.hpp"

namespace ddprun {

RendezvousPlan make_rendezvous_plan(const Allocation& allocation, const Options& options);

}  // namespace ddprun
