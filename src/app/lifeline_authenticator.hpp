// How the two ends of a lifeline prove that they belong together.
#pragma once

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/options/options.hpp"
#include "ddprun/rendezvous/handshake.hpp"

namespace ddprun {

// What ties an agent to its front end: the key in DDPRUN_FRONT_END_KEY or in the file that it was given; else
// munge or the user's key file; PBS_JOBCOOKIE, which others can compute, where there is nothing else.
Authenticator make_lifeline_authenticator(const Snapshot& snapshot, const Options& options);

}  // namespace ddprun
