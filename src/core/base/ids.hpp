// Types of values that must not be swapped: numbers that differ in meaning, and keys.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace ddprun {

// Numbers that differ in meaning have different types, so that they cannot be swapped.

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

// A symmetric key: 32 bytes that cannot be guessed.

using SecretKey = std::array<std::uint8_t, 32>;

}  // namespace ddprun
