// Profile of the workers of this host, taken by ddprun's module inside them.
#pragma once

#include <string>

#include "base/duration.hpp"
#include "os/capture/worker_inspection.hpp"
#include "os/process/answering_child.hpp"
#include "status/job_status.hpp"

namespace ddprun::os {

// Profiles the workers that run for `duration`, all at a time, in a child of its own. `limit`: bytes of the
// answer of each. Its answer is a line of profile::render_rank() for each of them. Throws Error if there can
// be no child.
AnsweringChild profile_workers_in_child(const status::NodeStatus& node, const InspectionDoors& doors,
                                        Milliseconds duration, int limit);

// Time that the child takes at most beyond the duration.
inline constexpr Milliseconds k_profile_grace{2500};

}  // namespace ddprun::os
