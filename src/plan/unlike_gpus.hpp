// A world that is smaller than its hosts were expected to make it: GPUs that are promised and not visible,
// and hosts that start different numbers of workers since they have different numbers of GPUs or CPUs.
#pragma once

#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "plan/world_plan.hpp"

namespace ddprun::plan {

// `missing` is a VisibleDevices::missing; `hosts` as a host list.
allocation::Notice describe_missing_gpus(const std::string& hosts, const std::string& missing);

// The coordinator's view of all hosts: at most one notice for each way in which GPUs are missing, and one for
// numbers of workers that differ where nobody gave a number.
std::vector<allocation::Notice> find_unlike_gpus(const std::vector<Announcement>& announcements);

}  // namespace ddprun::plan
