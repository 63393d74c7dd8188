// Ranks that wait for each other in different process groups, which some of them use in another order.
#pragma once

#include <set>

#include "status/job_status.hpp"

namespace ddprun::status {

// A rank in a pending collective waits for the members of its group that are in another one. Those that so
// wait for themselves, over any number of groups. Where torch does not say who is in a group, all are in the
// default one, and nothing follows from another.
std::set<int> find_crossed(const JobStatus& job);

}  // namespace ddprun::status
