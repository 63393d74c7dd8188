// Resources that processes use, from /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::os {

struct ProcessUsage {
  Milliseconds cpu_time{0};  // with that of children that have been waited for
  Milliseconds own_cpu{0};   // CPU time of the process itself
  Milliseconds cpu_wait{0};  // its main thread was ready to run, and had to wait for a CPU
  std::uint64_t memory = 0;  // resident bytes; what processes share counts for each
  std::uint64_t io = 0;      // bytes read and written by system calls (rchar and wchar of /proc/PID/io)
};

// Returns the time for which its main thread was ready to run and had to wait for a CPU: the second number of
// schedstat. None on a kernel without it.
Milliseconds read_cpu_wait(int pid);

// Returns the use of each process with all its descendants, in this order; nullopt for one that has ended,
// and without a /proc of our own. Reads the whole table once.
std::vector<std::optional<ProcessUsage>> measure_usage(const std::vector<int>& pids);

}  // namespace ddprun::os
