// The modes in which workers may overlap, as torch/numa/binding.py of torch 2.14 has them, over nodes that
// have allowed cores.

#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <map>

#include "facts/proc_text.hpp"
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

namespace {

// NUMA nodes that memory may come from. Those without CPUs are never taken: they are a GPU's own memory or a
// small fast one that a program has to ask for.
class MemoryMap {
 public:
  explicit MemoryMap(const PlacementRequest& request) : request_(request) {
    const auto& nodes = request.topology.nodes;
    sizes_known_ = std::ranges::any_of(nodes, [](const facts::MemoryNode& n) { return n.bytes > 0; });
  }

  // Reports whether there are several to choose from.
  bool has_choice() const {
    const auto& nodes = request_.topology.nodes;
    return std::ranges::count_if(nodes, [&](const facts::MemoryNode& n) { return has_memory(n); }) > 1;
  }

  // Returns the kernel's numbers of the nodes that cores of `nodes` take memory from.
  std::vector<int> of(const Nodes& nodes) const {
    std::vector<int> numbers;
    for (const int node : nodes) {
      const facts::MemoryNode& own = request_.topology.nodes[static_cast<std::size_t>(node)];
      const facts::MemoryNode* source = has_memory(own) ? &own : nearest(node);
      if (source != nullptr && is_allowed(*source)) numbers.push_back(source->number);
    }
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
  }

 private:
  bool has_memory(const facts::MemoryNode& node) const {
    return !node.cpus.empty() && (node.bytes > 0 || !sizes_known_);
  }

  bool is_allowed(const facts::MemoryNode& node) const {
    const std::vector<int>& allowed = request_.allowed_memory_nodes;
    return allowed.empty() || std::ranges::binary_search(allowed, node.number);
  }

  const facts::MemoryNode* nearest(int from) const {
    const facts::MemoryNode* best = nullptr;
    int least = std::numeric_limits<int>::max();
    const auto& nodes = request_.topology.nodes;
    for (std::size_t to = 0; to < nodes.size(); ++to) {
      if (!has_memory(nodes[to]) || !is_allowed(nodes[to])) continue;
      const int distance = distance_between(request_.topology, from, static_cast<int>(to));
      if (distance >= least) continue;
      least = distance;
      best = &nodes[to];
    }
    return best;
  }

  const PlacementRequest& request_;
  bool sizes_known_ = false;
};

}  // namespace

void place_memory(const PlacementInput& input, const std::vector<Nodes>& workers, Placement& placement) {
  const options::MemoryBind wish = input.request.memory;
  if (wish == options::MemoryBind::none) return;
  const MemoryMap memory(input.request);
  if (wish == options::MemoryBind::automatic && !memory.has_choice()) return;
  std::vector<int> without;
  for (std::size_t i = 0; i < placement.workers.size(); ++i) {
    facts::Binding& worker = placement.workers[i];
    const bool bound = !worker.cpus.empty();
    const Nodes nodes = bound ? workers[i] : nodes_of(input, every_core(input));
    if (wish == options::MemoryBind::automatic && (!bound || nodes.size() != 1)) continue;
    worker.memory_nodes = memory.of(nodes);
    if (worker.memory_nodes.empty()) {
      without.push_back(static_cast<int>(i));
    } else {
      worker.policy =
          wish == options::MemoryBind::bind ? facts::MemoryPolicy::bind : facts::MemoryPolicy::preferred;
    }
  }
  if (without.empty()) return;
  const std::vector<int>& allowed = input.request.allowed_memory_nodes;
  placement.notices.push_back(
      {fmt::format("no memory near the cores of {} may be used here: the kernel chooses the NUMA nodes",
                   name_workers(without)),
       allowed.empty()
           ? ""
           : fmt::format("the NUMA nodes that may be used: {}", facts::render_cpu_list(allowed))});
}

}  // namespace ddprun::placement
