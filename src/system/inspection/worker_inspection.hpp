// Inspection of the workers of this host: where each of them is.
// Asks torch's worker server and ddprun's module in them, and where these do not answer, faulthandler by a
// signal, and /proc.
#pragma once

#include <string>
#include <vector>

#include "status/job_status.hpp"
#include "status/json_values.hpp"

namespace ddprun::inspection {

struct InspectionDoors {
  // Indexed by worker: the path to which ".socket" (".ending" once its script is over) and ".stacks" are
  // added for its server and its dump; empty: it has none.
  std::vector<std::string> workers;
  int ras_port = 0;  // port of NCCL's RAS on 127.0.0.1; 0: not known
};

// Adds WorkerStatus::view to each worker that runs, within about a second. `stacks`: also where its threads
// are, for which the workers are interrupted for a moment. The workers' answers are not trusted: call it in a
// child. Returns what was collected of each.
std::vector<status::Collected> inspect_workers(std::vector<status::WorkerStatus>& workers,
                                               const InspectionDoors& doors, bool stacks);

}  // namespace ddprun::inspection
