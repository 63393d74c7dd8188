// The modes in which workers may overlap, as torch/numa/binding.py of torch 2.14 has them, over nodes that
// have allowed cores.
#include <algorithm>
#include <limits>
#include <map>

#include "placement_parts.hpp"

namespace ddprun {

namespace {

int nearest_with_cores(const Ground& ground, const Nodes& nodes) {
  int best = 0;
  int least = std::numeric_limits<int>::max();
  for (std::size_t node = 0; node < ground.by_node.size(); ++node) {
    if (ground.by_node[node].empty()) continue;
    for (const int from : nodes) {
      const int distance = distance_between(ground.request.topology, from, static_cast<int>(node));
      if (distance >= least) continue;
      least = distance;
      best = static_cast<int>(node);
    }
  }
  return best;
}

Cores all_cores_of(const Ground& ground, const Nodes& nodes) {
  Cores cores;
  for (const int node : nodes) {
    const Cores& own = ground.by_node[static_cast<std::size_t>(node)];
    cores.insert(cores.end(), own.begin(), own.end());
  }
  std::sort(cores.begin(), cores.end());
  return cores;
}

// The largest first, then by lowest CPU.
std::vector<Cores> core_complexes(const Ground& ground, const Nodes& nodes) {
  std::vector<Cores> groups;
  const Core* last = nullptr;
  for (const int core : all_cores_of(ground, nodes)) {
    const Core& now = ground.core(core);
    if (last == nullptr || last->node != now.node || last->cache != now.cache) groups.emplace_back();
    groups.back().push_back(core);
    last = &now;
  }
  std::stable_sort(groups.begin(), groups.end(), [&](const Cores& a, const Cores& b) {
    const auto cpus_a = cpus_of(ground, a);
    const auto cpus_b = cpus_of(ground, b);
    return cpus_a.size() != cpus_b.size() ? cpus_a.size() > cpus_b.size() : cpus_a.front() < cpus_b.front();
  });
  return groups;
}

}  // namespace

std::vector<Nodes> find_homes(const Ground& ground) {
  std::vector<Nodes> homes;
  for (std::size_t i = 0; i < ground.near.size(); ++i) {
    const Nodes& near = ground.near_any[i];
    Nodes home = with_cores(ground, near);
    if (home.empty() && !near.empty()) home = {nearest_with_cores(ground, near)};
    if (home.empty()) home = {ground.cores[i * ground.cores.size() / ground.near.size()]->node};
    homes.push_back(std::move(home));
  }
  return homes;
}

std::vector<Cores> take_nodes(const Ground& ground, const std::vector<Nodes>& homes) {
  std::vector<Cores> workers;
  for (const Nodes& home : homes) workers.push_back(all_cores_of(ground, home));
  return workers;
}

std::vector<Cores> take_packages(const Ground& ground, const std::vector<Nodes>& homes) {
  std::vector<Cores> workers;
  for (const Nodes& home : homes) {
    std::vector<int> packages;
    for (const int core : all_cores_of(ground, home)) packages.push_back(ground.core(core).package);
    Cores& own = workers.emplace_back();
    for (const int core : every_core(ground)) {
      const int package = ground.core(core).package;
      if (std::find(packages.begin(), packages.end(), package) != packages.end()) own.push_back(core);
    }
  }
  return workers;
}

std::vector<Cores> take_core_complexes(const Ground& ground, const std::vector<Nodes>& homes) {
  std::vector<Cores> workers;
  std::map<Nodes, std::size_t> taken;
  for (const Nodes& home : homes) {
    const auto groups = core_complexes(ground, home);
    workers.push_back(groups[taken[home]++ % groups.size()]);
  }
  return workers;
}

}  // namespace ddprun
