// Whether the hosts of a launch have the same Python and the same torch.
#pragma once

#include <optional>
#include <vector>

#include "allocation/allocation.hpp"
#include "plan/world_plan.hpp"

namespace ddprun::plan {

// One notice that names the hosts of each combination; nothing where they agree. An agent that found no torch
// says nothing about it: in a container it may be elsewhere.
std::optional<allocation::Notice> find_unlike_python(const std::vector<Announcement>& announcements);

}  // namespace ddprun::plan
