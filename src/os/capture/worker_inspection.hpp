// Where the workers of this host are: asked of torch's worker server and ddprun's module in them, and where
// these do not answer, of faulthandler by a signal and of /proc.
#pragma once

#include <string>
#include <vector>

#include "inspect/collected.hpp"
#include "status/job_status.hpp"

namespace ddprun::os {

// Adds WorkerStatus::view to each worker that runs, within about a second. `doors`: by worker, the path to
// which
// ".socket" (".ending" once its script is over) and ".stacks" are added for its server and its dump; empty:
// it has none. `stacks`: also where its threads are, for which the workers are interrupted for a moment. What
// a worker answers is believed by nobody: call it in a child. Returns what was collected of each.
std::vector<inspect::Collected> inspect_workers(std::vector<status::WorkerStatus>& workers,
                                                const std::vector<std::string>& doors, bool stacks);

}  // namespace ddprun::os
