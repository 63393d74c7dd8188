#include "facts/schedulers.hpp"

#include <algorithm>

namespace ddprun::facts {

const SchedulerTraits* find_traits(Scheduler scheduler) {
  const auto found = std::ranges::find_if(
      k_schedulers, [&](const SchedulerTraits& row) { return row.scheduler == scheduler; });
  return found == k_schedulers.end() ? nullptr : &*found;
}

}  // namespace ddprun::facts
