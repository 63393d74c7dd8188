// A ddprun that a carrier started without arguments and environment: it gets them and becomes itself anew.
//
//   ddprun --started-by input                       all of it comes through standard input (ssh)
//   ddprun --started-by ADDRESS,...:PORT/ID [PLACE] it asks the starter, and proves itself by what the
//   carrier
//                                                   passed or the job knows (Open MPI; pbsdsh, pbs_tmrsh)
#pragma once

#include <string>
#include <vector>

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/rendezvous/handshake.hpp"

namespace ddprun {

// `arguments` is argv without the program's name.
bool is_started_agent(const std::vector<std::string>& arguments);
// Does not come back. Throws Error.
[[noreturn]] void become_started_agent(const Snapshot& snapshot);

// What ties an agent to its starter: DDPRUN_STARTER_KEY, else the job's own secret.
Prover make_lifeline_prover(const Snapshot& snapshot, const std::string& key_file);

}  // namespace ddprun
