// Output of a short program: mpiexec --version, scontrol show job.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::os {

// Errors included, at most `most` bytes; what has come by then where it does not end within `limit`, and
// nothing where it cannot be started. It and what it started are killed. Waits.
std::string ask_program(const std::vector<std::string>& words, Milliseconds limit, std::size_t most = 16384);

}  // namespace ddprun::os
