// How long a host name may take to be looked up: the C library asks two name servers, five seconds each.
#pragma once

#include "base/duration.hpp"

namespace ddprun {

inline constexpr Milliseconds k_lookup_limit{10000};

}  // namespace ddprun
