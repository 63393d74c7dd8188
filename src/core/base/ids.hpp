// Numbers that differ in meaning have different types, so that they cannot be swapped.
#pragma once

#include <compare>

namespace ddprun {

template <class Tag>
struct Id {
  int value = 0;
  friend auto operator<=>(const Id&, const Id&) = default;
};

using GlobalRank = Id<struct GlobalRankTag>;  // RANK: 0 .. world size - 1
using LocalRank = Id<struct LocalRankTag>;    // LOCAL_RANK: 0 .. local world size - 1, on one host
using NodeIndex = Id<struct NodeIndexTag>;    // GROUP_RANK: position of a host in the scheduler's order
using AgentIndex = Id<struct AgentIndexTag>;  // position of one ddprun process among all of the job
using Attempt = Id<struct AttemptTag>;        // 0 for the first start, +1 for each restart of the whole world

}  // namespace ddprun
