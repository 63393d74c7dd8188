#include "plan/launch_plan.hpp"

namespace ddprun::plan {

std::vector<allocation::Notice> notices_of(const LaunchPlan& plan) {
  std::vector<allocation::Notice> notices = plan.node->notices;
  notices.insert(notices.end(), plan.notices.begin(), plan.notices.end());
  return notices;
}

}  // namespace ddprun::plan
