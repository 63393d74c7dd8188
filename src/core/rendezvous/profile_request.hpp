// Messages about a profile of the running job (--profile).
// The coordinator passes a request on to every agent, and each part of the answer back to the one that asks.
#pragma once

#include <string>

#include "base/duration.hpp"

namespace ddprun::rendezvous {

inline constexpr Milliseconds k_shortest_profile{1000}, k_longest_profile{300'000};
inline constexpr std::size_t k_max_profile_part = std::size_t{768} << 10;  // bytes of a line

struct ProfileRequest {
  int number = 0;  // number among those of the asking agent
  int asker = 0;   // its connection to the coordinator, which fills it in
  Milliseconds duration{10'000};
  int limit = 0;  // bytes of a rank's answer
  friend bool operator==(const ProfileRequest&, const ProfileRequest&) = default;
};

struct ProfilePart {
  int number = 0, asker = 0;  // numbers in the request
  int agents = 0;             // number of agents that are asked: in the first part, from the coordinator
  bool last = false;          // last part of its agent
  std::string line{};         // profile::render_rank(), or render_asked()
  friend bool operator==(const ProfilePart&, const ProfilePart&) = default;
};

}  // namespace ddprun::rendezvous
