#include "slow/clock_offset.hpp"

#include <algorithm>
#include <limits>

namespace ddprun::slow {

void ClockOffset::note(std::int64_t asked, std::int64_t other, std::int64_t received) {
  ++answers_;
  if (received < asked) return;  // the clock was set
  constexpr std::int64_t k_most = std::numeric_limits<int>::max();
  const int bound = static_cast<int>(std::min((received - asked + 1) / 2, k_most));
  if (best_ && best_->bound <= bound) return;
  best_ = Reading{other - (asked + (received - asked) / 2), bound};
}

}  // namespace ddprun::slow
