// The modes in which workers may overlap, as torch/numa/binding.py of torch 2.14 has them, over nodes that
// have allowed cores.
#include <algorithm>
#include <limits>
#include <map>

#include "placement/placement_parts.hpp"

namespace ddprun::placement {

namespace {

int nearest_with_cores(const PlacementInput& input, const Nodes& nodes) {
  int best = 0;
  int least = std::numeric_limits<int>::max();
  for (std::size_t node = 0; node < input.by_node.size(); ++node) {
    if (input.by_node[node].empty()) continue;
    for (const int from : nodes) {
      const int distance = distance_between(input.request.topology, from, static_cast<int>(node));
      if (distance >= least) continue;
      least = distance;
      best = static_cast<int>(node);
    }
  }
  return best;
}

Cores all_cores_of(const PlacementInput& input, const Nodes& nodes) {
  Cores cores;
  for (const int node : nodes) {
    const Cores& own = input.by_node[static_cast<std::size_t>(node)];
    cores.insert(cores.end(), own.begin(), own.end());
  }
  std::ranges::sort(cores);
  return cores;
}

// Returns the largest first, then by lowest CPU.
std::vector<Cores> core_complexes(const PlacementInput& input, const Nodes& nodes) {
  std::vector<Cores> groups;
  const facts::Core* last = nullptr;
  for (const int core : all_cores_of(input, nodes)) {
    const facts::Core& now = input.core(core);
    if (last == nullptr || last->node != now.node || last->cache != now.cache) groups.emplace_back();
    groups.back().push_back(core);
    last = &now;
  }
  std::ranges::stable_sort(groups, [&](const Cores& a, const Cores& b) {
    const auto cpus_a = cpus_of(input, a);
    const auto cpus_b = cpus_of(input, b);
    return cpus_a.size() != cpus_b.size() ? cpus_a.size() > cpus_b.size() : cpus_a.front() < cpus_b.front();
  });
  return groups;
}

}  // namespace

std::vector<Nodes> find_numa_nodes(const PlacementInput& input) {
  std::vector<Nodes> numa_nodes;
  for (std::size_t i = 0; i < input.near.size(); ++i) {
    const Nodes& near = input.near_any[i];
    Nodes own = with_cores(input, near);
    if (own.empty() && !near.empty()) own = {nearest_with_cores(input, near)};
    if (own.empty()) own = {input.cores[i * input.cores.size() / input.near.size()]->node};
    numa_nodes.push_back(std::move(own));
  }
  return numa_nodes;
}

std::vector<Cores> take_nodes(const PlacementInput& input, const std::vector<Nodes>& numa_nodes) {
  std::vector<Cores> workers;
  for (const Nodes& nodes : numa_nodes) workers.push_back(all_cores_of(input, nodes));
  return workers;
}

std::vector<Cores> take_packages(const PlacementInput& input, const std::vector<Nodes>& numa_nodes) {
  std::vector<Cores> workers;
  for (const Nodes& nodes : numa_nodes) {
    std::vector<int> packages;
    for (const int core : all_cores_of(input, nodes)) packages.push_back(input.core(core).package);
    Cores& own = workers.emplace_back();
    for (const int core : every_core(input)) {
      const int package = input.core(core).package;
      if (std::ranges::find(packages, package) != packages.end()) own.push_back(core);
    }
  }
  return workers;
}

std::vector<Cores> take_core_complexes(const PlacementInput& input, const std::vector<Nodes>& numa_nodes) {
  std::vector<Cores> workers;
  std::map<Nodes, std::size_t> taken;
  for (const Nodes& nodes : numa_nodes) {
    const auto groups = core_complexes(input, nodes);
    workers.push_back(groups[taken[nodes]++ % groups.size()]);
  }
  return workers;
}

}  // namespace ddprun::placement
