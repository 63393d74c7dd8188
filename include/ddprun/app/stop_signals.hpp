// Which signals stop the job, and which ddprun looks at.
#pragma once

#include <vector>

#include "ddprun/plan/options.hpp"

namespace ddprun {

// --signals-to-handle, else TERM, INT, HUP and QUIT.
std::vector<int> stop_signals_of(const Options& options);
// Those, and what else a launcher has to answer.
std::vector<int> watched_signals_of(const Options& options);

}  // namespace ddprun
