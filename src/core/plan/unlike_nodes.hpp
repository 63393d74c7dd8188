// Differences between the hosts of a launch that should not be there.
// They are GPUs that are promised and not visible, numbers of workers since the hosts have different numbers
// of GPUs or CPUs, and the Python with its torch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "plan/world_plan.hpp"

namespace ddprun::plan {

// Describes missing GPUs. `missing` is a VisibleDevices::missing; `hosts` as a host list.
allocation::Notice describe_missing_gpus(const std::string& hosts, const std::string& missing);

// Finds differences in the coordinator's view of all hosts: at most one notice for each way in which GPUs are
// missing, and one for numbers of workers that differ if no number was given.
std::vector<allocation::Notice> find_unlike_gpus(const std::vector<Announcement>& announcements);

// Finds hosts whose workers are more than the CPUs that they may use. At most one notice; nothing is known of
// hosts whose workers are not bound.
std::optional<allocation::Notice> find_crowded_hosts(const std::vector<Announcement>& announcements);

// Returns one notice that names the hosts of each combination; nullopt if they agree. An agent that found no
// torch says nothing about it: in a container it may be elsewhere.
std::optional<allocation::Notice> find_unlike_python(const std::vector<Announcement>& announcements);

}  // namespace ddprun::plan
