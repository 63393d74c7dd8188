#include "facts/schedulers.hpp"

#include <algorithm>

namespace ddprun::facts {

const SchedulerTraits* find_traits(Scheduler scheduler) {
  const auto found = std::find_if(k_schedulers.begin(), k_schedulers.end(),
                                  [&](const SchedulerTraits& row) { return row.scheduler == scheduler; });
  return found == k_schedulers.end() ? nullptr : &*found;
}

}  // namespace ddprun::facts
