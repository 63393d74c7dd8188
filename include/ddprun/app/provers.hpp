// How this agent proves that it belongs to the job: munge where its daemon runs, and the user's key file.
#pragma once

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/plan/options.hpp"
#include "ddprun/rendezvous/handshake.hpp"

namespace ddprun {

// Throws Error when there is neither. Where munge runs, a key file that cannot be used is no obstacle unless
// the user named it.
Prover make_prover(const Options& options, const Snapshot& snapshot);

}  // namespace ddprun
