// Nodes that nobody sells, the same ones for a seed: uneven packages and caches, CPUs numbered at random,
// memory without CPUs and CPUs without memory, masks with holes.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "placement/placement.hpp"

namespace ddprun::test {

class RandomNodes {
 public:
  explicit RandomNodes(std::uint32_t seed) : random_(seed) {}

  // Each GPU is near whole NUMA nodes, as these are or as the mask has cut them, or its place is not known.
  // Valid until the next call: a topology is met with several masks and GPUs.
  const placement::PlacementRequest& next();

  static constexpr int k_most_cpus = 64;

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<std::uint32_t>(limit)); }
  bool one_in(int count) { return below(count) == 0; }

  void make_topology();
  void add_cache(facts::Core place, std::vector<int>& numbers);
  void add_memory();
  void cut();
  std::vector<int> near_gpu();

  std::mt19937 random_;
  placement::PlacementRequest request_;
  int masks_left_ = 0;
};

}  // namespace ddprun::test
