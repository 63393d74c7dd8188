// The signs of life in what a look shows of a worker.
#pragma once

#include "status/hang_watch.hpp"
#include "status/job_status.hpp"

namespace ddprun::status {

status::Signs signs_of(const WorkerStatus& worker);

}  // namespace ddprun::status
