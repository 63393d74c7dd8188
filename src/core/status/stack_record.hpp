// Text added to a rank's file of stacks in the log folder, when a hang is found and for --stacks.
#pragma once

#include <cstdint>
#include <string>

#include "status/collected.hpp"
#include "status/job_status.hpp"

namespace ddprun::status {

// Renders a heading with the time, the attempt and the process; where it is; and all that was collected,
// whole: the stacks of all its threads, and torch's flight record as it came. Empty for a rank that has
// ended. `time`: Unix time in milliseconds.
std::string render_stack_record(const std::string& host, const WorkerStatus& worker,
                                const status::Collected& collected, std::int64_t time, int attempt);

}  // namespace ddprun::status
