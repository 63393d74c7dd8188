#pragma once

#include "ddprun/base/duration.hpp"

namespace ddprun::app {

// A host that is cut off loses the coordinator this long before the coordinator loses it, and kills its
// workers then, so that they do not run beside those of the next attempt. Both count from the last that came
// through, in steps of a second, and are late by two at most (net/tcp_tools.hpp).
inline constexpr Milliseconds k_cut_off_margin{4000};

}  // namespace ddprun::app
