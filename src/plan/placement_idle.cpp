// Where several NUMA nodes make a package (NPS4, SNC4), only some of them have a GPU. Cores of the others are
// a little farther from it, and far better than none.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <queue>
#include <tuple>

#include "placement_parts.hpp"

namespace ddprun {

namespace {

struct Claimant {
  std::size_t worker = 0;
  Nodes nodes;  // of its cores
  std::size_t lacks = 0;
};

// Where there are cores, to whom the next one goes: who has fewest, of these the first.
void find_lacks(std::vector<Claimant>& claimants, const std::vector<Cores>& workers, std::size_t cores) {
  using Level = std::pair<std::size_t, std::size_t>;
  std::priority_queue<Level, std::vector<Level>, std::greater<>> levels;
  for (std::size_t i = 0; i < claimants.size(); ++i) levels.emplace(workers[claimants[i].worker].size(), i);
  for (; cores > 0; --cores) {
    const auto [level, claimant] = levels.top();
    levels.pop();
    ++claimants[claimant].lacks;
    levels.emplace(level + 1, claimant);
  }
}

std::tuple<int, int, std::size_t> nearness_of(const Ground& ground, const Claimant& claimant, int node) {
  std::tuple<int, int, std::size_t> best{std::numeric_limits<int>::max(), 0, claimant.worker};
  for (const int own : claimant.nodes) {
    best = std::min(
        best, {distance_between(ground.request.topology, own, node), std::abs(own - node), claimant.worker});
  }
  return best;
}

void give_away(const Ground& ground, int node, std::vector<Claimant>& claimants,
               std::vector<Cores>& workers) {
  std::sort(claimants.begin(), claimants.end(), [&](const Claimant& a, const Claimant& b) {
    return nearness_of(ground, a, node) < nearness_of(ground, b, node);
  });
  const Cores& cores = ground.by_node[static_cast<std::size_t>(node)];
  auto next = cores.begin();
  for (Claimant& claimant : claimants) {
    const std::size_t count = std::min(claimant.lacks, static_cast<std::size_t>(cores.end() - next));
    Cores& own = workers[claimant.worker];
    own.insert(own.end(), next, next + static_cast<std::ptrdiff_t>(count));
    next += static_cast<std::ptrdiff_t>(count);
    claimant.lacks -= count;
  }
}

std::vector<Claimant> find_claimants(const Ground& ground, int package, const std::vector<Cores>& workers) {
  std::vector<Claimant> claimants;
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    Cores here;
    for (const int core : workers[worker]) {
      if (ground.core(core).package == package) here.push_back(core);
    }
    if (!here.empty()) claimants.push_back({worker, nodes_of(ground, here), 0});
  }
  return claimants;
}

}  // namespace

Nodes share_idle_nodes(const Ground& ground, std::vector<Cores>& workers) {
  std::vector<bool> held(ground.cores.size());
  for (const Cores& own : workers) {
    for (const int core : own) held[static_cast<std::size_t>(core)] = true;
  }
  std::vector<Nodes> idle(static_cast<std::size_t>(ground.request.topology.packages));
  for (std::size_t node = 0; node < ground.by_node.size(); ++node) {
    const Cores& cores = ground.by_node[node];
    const bool any_held = std::any_of(cores.begin(), cores.end(),
                                      [&](int core) { return held[static_cast<std::size_t>(core)]; });
    if (cores.empty() || any_held) continue;
    idle[static_cast<std::size_t>(ground.core(cores.front()).package)].push_back(static_cast<int>(node));
  }
  Nodes given;
  for (std::size_t package = 0; package < idle.size(); ++package) {
    std::vector<Claimant> claimants = find_claimants(ground, static_cast<int>(package), workers);
    if (claimants.empty()) continue;
    std::size_t cores = 0;
    for (const int node : idle[package]) cores += ground.by_node[static_cast<std::size_t>(node)].size();
    find_lacks(claimants, workers, cores);
    for (const int node : idle[package]) give_away(ground, node, claimants, workers);
    given.insert(given.end(), idle[package].begin(), idle[package].end());
  }
  for (Cores& own : workers) std::sort(own.begin(), own.end());
  std::sort(given.begin(), given.end());
  return given;
}

}  // namespace ddprun
