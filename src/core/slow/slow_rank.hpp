// Notice of a rank that the others wait for, with the cause where what is measured of it shows one.
#pragma once

#include <optional>
#include <string>

#include "slow/slow_watch.hpp"
#include "status/job_status.hpp"

namespace ddprun::slow {

struct SlowNotice {
  std::string what;  // "rank 5 on n2 is slow: the other ranks waited for it 18 % of the last 5 min; ..."
  std::string hint;
  std::string host;
  status::WorkerStatus worker{};
  bool seen_late = false;  // it was seen while most of the others waited for it
};

// Adds how long the others wait for each rank, and how long a step takes.
void add_waits(status::JobStatus& job, const slow::SlowWatch& watch);

// Returns nullopt if the status does not have that rank, or it has ended.
std::optional<SlowNotice> describe_slow(const status::JobStatus& job, const slow::SlowRank& slow,
                                        Milliseconds window);

}  // namespace ddprun::slow
