#include <fmt/format.h>

#include <algorithm>

#include "ddprun/facts/proc_text.hpp"
#include "placement_parts.hpp"

namespace ddprun {

namespace {

constexpr int k_local_distance = 10;
constexpr int k_unknown_distance = 20;

class CpuSet {
 public:
  explicit CpuSet(const std::vector<int>& cpus) {
    for (const int cpu : cpus) {
      const auto index = static_cast<std::size_t>(cpu);
      if (index >= has_.size()) has_.resize(index + 1);
      has_[index] = 1;
    }
  }

  bool contains(int cpu) const {
    const auto index = static_cast<std::size_t>(cpu);
    return index < has_.size() && has_[index] != 0;
  }

  bool contains_any(const std::vector<int>& cpus) const {
    for (const int cpu : cpus) {
      if (contains(cpu)) return true;
    }
    return false;
  }

 private:
  std::vector<char> has_;
};

// Of a NUMA node's cores.
struct Count {
  int near = 0;
  int all = 0;
};

// The nodes most of whose cores are near, else the one with most. A list that the scheduler's cgroup has cut
// is compared with what it left of a node; where it left nothing, with the whole node. What is near every
// node is near none: so the kernel answers where the firmware tells nothing.
Nodes find_near_nodes(const Topology& topology, const CpuSet& allowed, const CpuSet& near) {
  std::vector<Count> whole(topology.nodes.size());
  std::vector<Count> left(topology.nodes.size());
  for (const Core& core : topology.cores) {
    const auto node = static_cast<std::size_t>(core.node);
    const int is_near = near.contains_any(core.cpus) ? 1 : 0;
    const int is_left = allowed.contains_any(core.cpus) ? 1 : 0;
    whole[node].near += is_near;
    left[node].near += is_near & is_left;
    ++whole[node].all;
    left[node].all += is_left;
  }
  Nodes nodes;
  std::size_t with_cores = 0;
  std::size_t most = 0;
  for (std::size_t node = 0; node < left.size(); ++node) {
    if (whole[node].all > 0) ++with_cores;
    if (left[node].all == 0) left[node] = whole[node];
    if (2 * left[node].near > left[node].all) nodes.push_back(static_cast<int>(node));
    if (left[node].near > left[most].near) most = node;
  }
  if (nodes.empty() && !left.empty() && left[most].near > 0) return {static_cast<int>(most)};
  return nodes.size() == with_cores && with_cores > 1 ? Nodes{} : nodes;
}

}  // namespace

Ground survey(const PlacementRequest& request) {
  Ground ground{request, {}, {}, {}};
  const CpuSet allowed(request.allowed_cpus);
  ground.by_node.resize(request.topology.nodes.size());
  for (const Core& core : request.topology.cores) {
    if (!allowed.contains_any(core.cpus)) continue;
    Core cut{{}, core.package, core.node, core.cache};
    for (const int cpu : core.cpus) {
      if (allowed.contains(cpu)) cut.cpus.push_back(cpu);
    }
    ground.by_node[static_cast<std::size_t>(core.node)].push_back(static_cast<int>(ground.cores.size()));
    ground.cores.push_back(std::move(cut));
  }
  for (const auto& gpus : request.near_gpus) {
    std::vector<Nodes>& near = ground.near.emplace_back();
    for (const std::vector<int>& cpus : gpus)
      near.push_back(find_near_nodes(request.topology, allowed, CpuSet(cpus)));
  }
  return ground;
}

bool overlap(const std::vector<int>& few, const std::vector<int>& many) {
  return std::any_of(few.begin(), few.end(),
                     [&](int number) { return std::binary_search(many.begin(), many.end(), number); });
}

Cores every_core(const Ground& ground) {
  Cores cores(ground.cores.size());
  for (std::size_t i = 0; i < cores.size(); ++i) cores[i] = static_cast<int>(i);
  return cores;
}

Nodes nodes_of(const Ground& ground, const Cores& cores) {
  Nodes nodes;
  for (const int core : cores) nodes.push_back(ground.cores[static_cast<std::size_t>(core)].node);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

std::vector<int> cpus_of(const Ground& ground, const Cores& cores) {
  std::vector<int> cpus;
  for (const int core : cores) {
    const std::vector<int>& own = ground.cores[static_cast<std::size_t>(core)].cpus;
    cpus.insert(cpus.end(), own.begin(), own.end());
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

int distance_between(const Topology& topology, int from, int to) {
  if (topology.distances.empty()) return from == to ? k_local_distance : k_unknown_distance;
  return topology.distances[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
}

Nodes nodes_near(const std::vector<Nodes>& gpus) {
  Nodes all;
  for (const Nodes& nodes : gpus) all.insert(all.end(), nodes.begin(), nodes.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

bool knows_a_gpu(const Ground& ground) {
  return std::any_of(ground.near.begin(), ground.near.end(),
                     [](const std::vector<Nodes>& gpus) { return !nodes_near(gpus).empty(); });
}

std::string name_workers(const std::vector<int>& workers) {
  return fmt::format("worker{} {}", workers.size() == 1 ? "" : "s", render_cpu_list(workers));
}

}  // namespace ddprun
