// Test whether two ascending lists (of CPUs, cores, NUMA nodes) have a number in common.
#pragma once

#include <algorithm>
#include <vector>

namespace ddprun::placement {

inline bool overlap(const std::vector<int>& few, const std::vector<int>& many) {
  return std::ranges::any_of(few, [&](int number) { return std::ranges::binary_search(many, number); });
}

}  // namespace ddprun::placement
