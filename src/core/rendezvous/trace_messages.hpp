// Messages about ranks that the others wait for (--slow-notice).
#pragma once

#include <cstdint>

#include "base/ids.hpp"
#include "slow/trace.hpp"

namespace ddprun::rendezvous {

// Question of an agent for the coordinator's clock. Both clocks in microseconds.
struct ClockQuestion {
  std::int64_t asked = 0;  // on the agent's clock, for the reply
  friend bool operator==(const ClockQuestion&, const ClockQuestion&) = default;
};

struct ClockReply {
  std::int64_t asked = 0;
  std::int64_t now = 0;
  friend bool operator==(const ClockReply&, const ClockReply&) = default;
};

// Collectives of an agent's ranks, on the coordinator's clock.
struct CollectivesSeen {
  Attempt attempt;
  int look = 0;  // number of the look: that clock divided by the interval between two
  slow::NodeTrace trace;
  friend bool operator==(const CollectivesSeen&, const CollectivesSeen&) = default;
};

}  // namespace ddprun::rendezvous
