// The signs of life in what a look shows of a worker.
#pragma once

#include "inspect/hang_watch.hpp"
#include "status/job_status.hpp"

namespace ddprun::status {

inspect::Signs signs_of(const WorkerStatus& worker);

}  // namespace ddprun::status
