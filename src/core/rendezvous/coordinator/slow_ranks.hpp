// Ranks that the others wait for in an attempt, and the one of which a notice is due.
#pragma once

#include <optional>

#include "slow/slow_watch.hpp"
#include "status/job_status.hpp"

namespace ddprun::rendezvous {

struct SlowRanks {
  // Looks at where a slow rank is, one for each look at its collectives, before its notice does without the
  // place where it is while the others wait.
  static constexpr int k_most_places = 5;

  explicit SlowRanks(const std::optional<options::SlowNotice>& notice) : watch(notice) {}
  void begin_attempt() {
    watch.begin_attempt();
    due.reset();
    places = 0;
  }
  void add_to(status::JobStatus& job) const;

  slow::SlowWatch watch;
  std::optional<slow::SlowRank> due{};
  int places = 0;  // looks so far
  int look = -1;   // look at the collectives after which the last one was
};

}  // namespace ddprun::rendezvous
