// A ddprun that a carrier started without arguments and environment: it gets them and becomes itself anew.
//
//   ddprun --started-by input                       all of it comes through standard input (ssh)
//   ddprun --started-by ADDRESS,...:PORT/ID [PLACE [KEY-FILE]]
//                               it asks the starter, and proves itself by what the carrier passed (Open MPI),
//                               by the key in that file (pbsdsh, pbs_tmrsh), or as agents do
#pragma once

#include <string>
#include <vector>

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/plan/options.hpp"
#include "ddprun/rendezvous/handshake.hpp"

namespace ddprun {

// `arguments` is argv without the program's name.
bool is_started_agent(const std::vector<std::string>& arguments);
// Does not come back. Throws Error.
[[noreturn]] void become_started_agent(const Snapshot& snapshot);

// What ties an agent to its starter: the key in DDPRUN_STARTER_KEY or in the file that it was given; else
// munge or the user's key file; PBS_JOBCOOKIE, which others can compute, where there is nothing else.
Prover make_lifeline_prover(const Snapshot& snapshot, const Options& options);

}  // namespace ddprun
