#include <fmt/format.h>

#include <algorithm>

#include "ddprun/facts/proc_text.hpp"
#include "placement_parts.hpp"

namespace ddprun {

namespace {

constexpr int k_local_distance = 10;
constexpr int k_unknown_distance = 20;

bool is_among(const std::vector<int>& ascending, int number) {
  return std::binary_search(ascending.begin(), ascending.end(), number);
}

struct Count {
  int near = 0;
  int all = 0;
};

void count_cores(const std::vector<Core>& cores, const std::vector<int>& near, std::vector<Count>& counts) {
  for (const Core& core : cores) {
    Count& count = counts[static_cast<std::size_t>(core.node)];
    ++count.all;
    if (overlap(core.cpus, near)) ++count.near;
  }
}

// The nodes most of whose cores are near, else the one with most. A list that the scheduler's cgroup has cut
// is compared with what it left of a node; where it left nothing, with the whole node. What is near every
// node is near none: so the kernel answers where the firmware tells nothing.
Nodes find_near_nodes(const Ground& ground, const std::vector<int>& near) {
  const Topology& topology = ground.request.topology;
  std::vector<Count> counts(topology.nodes.size());
  std::vector<Count> whole(topology.nodes.size());
  count_cores(ground.cores, near, counts);
  count_cores(topology.cores, near, whole);
  Nodes nodes;
  std::size_t with_cores = 0;
  std::size_t most = 0;
  for (std::size_t node = 0; node < counts.size(); ++node) {
    if (whole[node].all > 0) ++with_cores;
    if (counts[node].all == 0) counts[node] = whole[node];
    if (2 * counts[node].near > counts[node].all) nodes.push_back(static_cast<int>(node));
    if (counts[node].near > counts[most].near) most = node;
  }
  if (nodes.empty() && !counts.empty() && counts[most].near > 0) return {static_cast<int>(most)};
  return nodes.size() == with_cores && with_cores > 1 ? Nodes{} : nodes;
}

}  // namespace

Ground survey(const PlacementRequest& request) {
  Ground ground{request, {}, {}, {}};
  ground.by_node.resize(request.topology.nodes.size());
  for (const Core& core : request.topology.cores) {
    Core cut{{}, core.package, core.node, core.cache};
    for (const int cpu : core.cpus) {
      if (is_among(request.allowed_cpus, cpu)) cut.cpus.push_back(cpu);
    }
    if (cut.cpus.empty()) continue;
    ground.by_node[static_cast<std::size_t>(core.node)].push_back(static_cast<int>(ground.cores.size()));
    ground.cores.push_back(std::move(cut));
  }
  for (const auto& gpus : request.near_gpus) {
    std::vector<Nodes>& near = ground.near.emplace_back();
    for (const std::vector<int>& cpus : gpus)
      near.push_back(cpus.empty() ? Nodes{} : find_near_nodes(ground, cpus));
  }
  return ground;
}

bool overlap(const std::vector<int>& few, const std::vector<int>& many) {
  return std::any_of(few.begin(), few.end(), [&](int number) { return is_among(many, number); });
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
