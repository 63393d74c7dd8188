// Proofs that this agent belongs to the job.
// They are a key that only this job's processes were given, munge where its daemon runs, and the user's key
// file.
#pragma once

#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "rendezvous/handshake.hpp"

namespace ddprun::peers {

// Offers all there is, since the other side may lack some of it, or the key file alone where the user named
// it; what others can compute (PBS_JOBCOOKIE) only where there is nothing else, and then it says so. The
// default key file is made where no secret is known to be with every agent. Throws Error when there is
// nothing; a key file that cannot be used is no obstacle beside something else. `place`: of the allocation;
// the nodes of such a service seldom share a home directory.
rendezvous::Authenticator make_authenticator(const options::Options& options,
                                             const std::vector<allocation::JobSecret>& secrets,
                                             const facts::Snapshot& snapshot, const std::string& place = {});

// Returns the proof between an agent and its front end: the key in DDPRUN_FRONT_END_KEY or in the file that
// it was given; else munge or the user's key file; PBS_JOBCOOKIE, which others can compute, if there is no
// other.
rendezvous::Authenticator make_lifeline_authenticator(const facts::Snapshot& snapshot,
                                                      const options::Options& options);

}  // namespace ddprun::peers
