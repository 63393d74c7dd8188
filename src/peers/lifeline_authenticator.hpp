// How the two ends of a lifeline prove that they belong together.
#pragma once

#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "rendezvous/handshake.hpp"

namespace ddprun::peers {

// What ties an agent to its front end: the key in DDPRUN_FRONT_END_KEY or in the file that it was given; else
// munge or the user's key file; PBS_JOBCOOKIE, which others can compute, where there is nothing else.
rendezvous::Authenticator make_lifeline_authenticator(const facts::Snapshot& snapshot,
                                                      const options::Options& options);

}  // namespace ddprun::peers
