// Tasks that a Slurm job's script asked for, as `scontrol show job` shows them in a step that has its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// Reports whether this is the first agent of a step of one task a node whose job may have asked for more: the
// job has a host with several CPUs, and no variable shows how many tasks.
bool lacks_asked_tasks(const Allocation& allocation, const facts::Snapshot& snapshot);
// Reads what `scontrol show job` printed. The layout of an uneven number follows from the CPUs that each host
// was granted; nullopt where these are not as many as the tasks need, and for one task a host.
std::optional<Sourced<std::vector<Host>>> parse_shown_tasks(const std::string& shown,
                                                            const Allocation& allocation,
                                                            const facts::Snapshot& snapshot);

}  // namespace ddprun::allocation
