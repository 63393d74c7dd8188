// Programs of this machine that could start ddprun on other hosts.
#pragma once

#include <string>
#include <vector>

#include "facts/snapshot.hpp"

namespace ddprun::os {

// Adds `names`, as PATH finds them, and "ddprun", this program's own file, to Snapshot::programs. mpiexec is
// asked for its version, since every MPI has one of that name: a child process of a few seconds at most.
void capture_remote_launchers(facts::Snapshot& snapshot, const std::vector<std::string>& names);

}  // namespace ddprun::os
