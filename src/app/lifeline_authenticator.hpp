// How the two ends of a lifeline prove that they belong together.
#pragma once

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/options/options.hpp"
#include "ddprun/rendezvous/handshake.hpp"

namespace ddprun::app {

// What ties an agent to its front end: the key in DDPRUN_FRONT_END_KEY or in the file that it was given; else
// munge or the user's key file; PBS_JOBCOOKIE, which others can compute, where there is nothing else.
rendezvous::Authenticator make_lifeline_authenticator(const facts::Snapshot& snapshot,
                                                      const options::Options& options);

}  // namespace ddprun::app
