// What processes use, as /proc tells.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::os {

struct ProcessUsage {
  Milliseconds cpu_time{0};  // with that of children that have been waited for
  Milliseconds own_cpu{0};   // of the process itself
  std::uint64_t memory = 0;  // resident bytes; what processes share counts for each
  std::uint64_t io = 0;      // bytes read and written by system calls (rchar and wchar of /proc/PID/io)
};

// Of each process with all that is below it, in this order; nothing for one that is not there, and without a
// /proc of our own. Reads the whole table once.
std::vector<std::optional<ProcessUsage>> measure_usage(const std::vector<int>& pids);

}  // namespace ddprun::os
