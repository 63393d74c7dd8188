// The only place that reads the environment and the state of the machine: everything ddprun plans from.
#pragma once

#include <string>

#include "facts/snapshot.hpp"

namespace ddprun::os {

// Reads the machine once, in about a millisecond: no name look-ups, no vendor libraries, no device is
// opened. What is missing or may not be read is absent from the result; never throws for it. `programs` holds
// python_candidates(); the command's own program is added by capture_program once the command is known.
facts::Snapshot capture_snapshot(int argc, const char* const* argv);

}  // namespace ddprun::os
