// Of two ascending lists of numbers (CPUs, cores, NUMA nodes): whether one is in both.
#pragma once

#include <algorithm>
#include <vector>

namespace ddprun::placement {

inline bool overlap(const std::vector<int>& few, const std::vector<int>& many) {
  return std::ranges::any_of(few, [&](int number) { return std::ranges::binary_search(many, number); });
}

}  // namespace ddprun::placement
