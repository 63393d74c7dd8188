// Place of a worker that is ddprun itself: of --check, and of a job of several programs.
#pragma once

#include <string>

#include "facts/snapshot.hpp"

namespace ddprun::probes {

struct OwnWorker {
  int rank = 0;
  int world = 1;
  std::string address;  // MASTER_ADDR
  int port = 0;         // MASTER_PORT
};

// Reads it from the environment. `option`: the word that made this process such a worker. Throws Error where
// a variable is not set: somebody else has used that word.
OwnWorker read_own_worker(const facts::Snapshot& snapshot, const std::string& option);

}  // namespace ddprun::probes
