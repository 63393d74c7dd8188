// What well-known last words of a worker mean, and what to do about them.
#pragma once

#include <string>

#include "ddprun/supervise/outcome.hpp"

namespace ddprun {

// A hint for the report, from the worker's last lines and its error file; empty where none is known.
// `world_size` is that of the attempt: some endings have a usual cause in larger worlds only.
std::string find_failure_hint(const Failure& failure, int world_size);

}  // namespace ddprun
