// Options for ranks that the others wait for: --slow-notice as a value.
#pragma once

#include "base/duration.hpp"

namespace ddprun::options {

struct SlowNotice {
  double share = 0.1;            // of the window, in which the other ranks waited for one
  Milliseconds window{300'000};  // "10%/5m"
};

inline constexpr Milliseconds k_shortest_slow_window{5'000};

}  // namespace ddprun::options
