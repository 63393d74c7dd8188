// Of two ascending lists of numbers (CPUs, cores, NUMA nodes): whether one is in both.
#pragma once

#include <algorithm>
#include <vector>

namespace ddprun::placement {

inline bool overlap(const std::vector<int>& few, const std::vector<int>& many) {
  return std::any_of(few.begin(), few.end(),
                     [&](int number) { return std::binary_search(many.begin(), many.end(), number); });
}

}  // namespace ddprun::placement
