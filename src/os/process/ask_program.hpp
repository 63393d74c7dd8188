// Output of a short program: mpiexec --version, scontrol show job.
#pragma once

#include <string>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::os {

// Returns the program's output, errors included, at most 16 KiB; what has come by then if it does not end
// within `limit`, and nothing if it cannot be started. It and what it started are killed. Waits.
std::string ask_program(const std::vector<std::string>& words, Milliseconds limit);

}  // namespace ddprun::os
