// A ddprun that a remote launcher started without arguments and environment.
// It gets them and executes itself anew.
//
//   ddprun --started-by input                       all of it comes through standard input (ssh)
//   ddprun --started-by ADDRESS,...:PORT/ID [PLACE [KEY-FILE]]
//                               it asks the front end, and proves itself by what the remote launcher passed
//                               (Open MPI), by the key in that file (pbsdsh, pbs_tmrsh), or as agents do
#pragma once

#include "facts/snapshot.hpp"

namespace ddprun::app {

// Does not come back. Throws Error.
[[noreturn]] void become_started_agent(const facts::Snapshot& snapshot);

}  // namespace ddprun::app
