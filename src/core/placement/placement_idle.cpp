// Distribution of cores on NUMA nodes without a GPU.
// If several NUMA nodes make a package (NPS4, SNC4), only some of them have a GPU. Cores of the others are a
// little farther from it, and far better than none.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <queue>
#include <tuple>

#include "placement/placement_parts.hpp"

namespace ddprun::placement {

namespace {

struct SharingWorker {
  std::size_t worker = 0;
  Nodes nodes;  // nodes of its cores
  std::size_t lacks = 0;
};

// Gives each next core to the worker with the fewest, of these the first.
void find_lacks(std::vector<SharingWorker>& sharing, const std::vector<Cores>& workers, std::size_t cores) {
  using Level = std::pair<std::size_t, std::size_t>;
  std::priority_queue<Level, std::vector<Level>, std::greater<>> levels;
  for (std::size_t i = 0; i < sharing.size(); ++i) levels.emplace(workers[sharing[i].worker].size(), i);
  for (; cores > 0; --cores) {
    const auto [level, worker] = levels.top();
    levels.pop();
    ++sharing[worker].lacks;
    levels.emplace(level + 1, worker);
  }
}

std::tuple<int, int, std::size_t> nearness_of(const PlacementInput& input, const SharingWorker& worker,
                                              int node) {
  std::tuple<int, int, std::size_t> best{std::numeric_limits<int>::max(), 0, worker.worker};
  for (const int own : worker.nodes) {
    best = std::min(
        best, {distance_between(input.request.topology, own, node), std::abs(own - node), worker.worker});
  }
  return best;
}

void give_away(const PlacementInput& input, int node, std::vector<SharingWorker>& sharing,
               std::vector<Cores>& workers) {
  std::ranges::sort(sharing, [&](const SharingWorker& a, const SharingWorker& b) {
    return nearness_of(input, a, node) < nearness_of(input, b, node);
  });
  const Cores& cores = input.by_node[static_cast<std::size_t>(node)];
  auto next = cores.begin();
  for (SharingWorker& worker : sharing) {
    const std::size_t count = std::min(worker.lacks, static_cast<std::size_t>(cores.end() - next));
    Cores& own = workers[worker.worker];
    own.insert(own.end(), next, next + static_cast<std::ptrdiff_t>(count));
    next += static_cast<std::ptrdiff_t>(count);
    worker.lacks -= count;
  }
}

std::vector<SharingWorker> find_sharing(const PlacementInput& input, int package,
                                        const std::vector<Cores>& workers) {
  std::vector<SharingWorker> sharing;
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    Cores here;
    for (const int core : workers[worker]) {
      if (input.core(core).package == package) here.push_back(core);
    }
    if (!here.empty()) sharing.push_back({worker, nodes_of(input, here), 0});
  }
  return sharing;
}

}  // namespace

Nodes share_idle_nodes(const PlacementInput& input, std::vector<Cores>& workers) {
  std::vector<bool> held(input.cores.size());
  for (const Cores& own : workers) {
    for (const int core : own) held[static_cast<std::size_t>(core)] = true;
  }
  std::vector<Nodes> idle(static_cast<std::size_t>(input.request.topology.packages));
  for (std::size_t node = 0; node < input.by_node.size(); ++node) {
    const Cores& cores = input.by_node[node];
    const bool any_held =
        std::ranges::any_of(cores, [&](int core) { return held[static_cast<std::size_t>(core)]; });
    if (cores.empty() || any_held) continue;
    idle[static_cast<std::size_t>(input.core(cores.front()).package)].push_back(static_cast<int>(node));
  }
  Nodes given;
  for (std::size_t package = 0; package < idle.size(); ++package) {
    std::vector<SharingWorker> sharing = find_sharing(input, static_cast<int>(package), workers);
    if (sharing.empty()) continue;
    std::size_t cores = 0;
    for (const int node : idle[package]) cores += input.by_node[static_cast<std::size_t>(node)].size();
    find_lacks(sharing, workers, cores);
    for (const int node : idle[package]) give_away(input, node, sharing, workers);
    given.insert(given.end(), idle[package].begin(), idle[package].end());
  }
  for (Cores& own : workers) std::ranges::sort(own);
  std::ranges::sort(given);
  return given;
}

}  // namespace ddprun::placement
