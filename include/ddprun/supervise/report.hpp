// What a person reads when a job or an attempt ends badly: the cause in one sentence, then what helps.
#pragma once

#include <string>

#include "ddprun/supervise/outcome.hpp"

namespace ddprun {

// Lines without the "ddprun: " in front of the first; at most one screen. Text that came from workers or
// peers is made printable. Empty for success.
std::string render_report(const Cause& cause, int max_restarts);

// "rank 3 on n2 exited with code 1; starting all workers again (restart 1 of 3)".
std::string render_restart(const Cause& cause, Attempt next, int max_restarts);

}  // namespace ddprun
