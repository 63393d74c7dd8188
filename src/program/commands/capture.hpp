// --capture: a snapshot of this host in a file, without secrets.
#pragma once

#include "facts/snapshot.hpp"
#include "options/options.hpp"

namespace ddprun::commands {

// Returns the exit code. Throws UsageError where the file is there and is no capture.
int write_capture(const facts::Snapshot& snapshot, const options::Options& options);

}  // namespace ddprun::commands
