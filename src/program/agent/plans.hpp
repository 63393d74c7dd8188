// Plans that the parts of an agent work by, always the latest.
#pragma once

#include <memory>

#include "plan/finalise.hpp"

namespace ddprun::agent {

struct Plans {
  std::shared_ptr<const plan::NodeProposal> node;
  std::shared_ptr<const plan::LaunchPlan> attempt =
      std::make_shared<const plan::LaunchPlan>();  // plan of the latest start
};

}  // namespace ddprun::agent
