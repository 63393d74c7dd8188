#include "random_nodes.hpp"

#include <algorithm>
#include <iterator>

namespace ddprun::test {

const placement::PlacementRequest& RandomNodes::next() {
  if (masks_left_-- == 0) {
    make_topology();
    masks_left_ = 3;
  }
  cut();
  request_.near_gpus.assign(static_cast<std::size_t>(1 + below(one_in(4) ? 12 : 5)), {});
  const int gpus_per_worker = one_in(4) ? 2 : 1;
  if (one_in(5)) return request_;
  for (auto& gpus : request_.near_gpus) {
    if (one_in(10)) continue;
    for (int i = 0; i < gpus_per_worker; ++i) gpus.push_back(near_gpu());
  }
  return request_;
}

void RandomNodes::make_topology() {
  facts::Topology& topology = request_.topology;
  topology = {};
  topology.source = "random";
  topology.packages = 1 + below(3);
  std::vector<int> numbers;  // the next CPU's last
  for (int cpu = k_most_cpus - 1; cpu >= 0; --cpu) numbers.push_back(cpu);
  if (one_in(3)) std::shuffle(numbers.begin(), numbers.end(), random_);
  const int most_nodes = 1 + below(3);
  const int most_caches = 1 + below(3);
  int number = 0;
  int cache = 0;
  for (int package = 0; package < topology.packages; ++package) {
    for (int nodes = 1 + below(most_nodes); nodes > 0; --nodes) {
      number += one_in(8) ? 2 : 1;
      topology.nodes.push_back({number, {}, 0});
      const int node = static_cast<int>(topology.nodes.size()) - 1;
      for (int caches = 1 + below(most_caches); caches > 0; --caches, ++cache)
        add_cache({{}, package, node, cache}, numbers);
    }
  }
  add_memory();
}

void RandomNodes::add_cache(facts::Core place, std::vector<int>& numbers) {
  const int threads = 1 + below(2);
  for (int cores = 1 + below(4); cores > 0 && !numbers.empty(); --cores) {
    facts::Core core = place;
    for (int thread = 0; thread < threads && !numbers.empty(); ++thread) {
      core.cpus.push_back(numbers.back());
      numbers.pop_back();
    }
    std::sort(core.cpus.begin(), core.cpus.end());
    std::vector<int>& own = request_.topology.nodes[static_cast<std::size_t>(core.node)].cpus;
    own.insert(own.end(), core.cpus.begin(), core.cpus.end());
    std::sort(own.begin(), own.end());
    request_.topology.cores.push_back(std::move(core));
  }
}

void RandomNodes::add_memory() {
  facts::Topology& topology = request_.topology;
  if (!one_in(4)) {
    for (facts::MemoryNode& node : topology.nodes) node.bytes = one_in(6) ? 0 : 1 << 30;
  }
  if (one_in(4)) topology.nodes.push_back({topology.nodes.back().number + 3, {}, 1 << 28});
  request_.allowed_memory_nodes.clear();
  if (one_in(3)) {
    for (const facts::MemoryNode& node : topology.nodes) {
      if (!one_in(3)) request_.allowed_memory_nodes.push_back(node.number);
    }
  }
  if (one_in(2)) return;
  const std::size_t count = topology.nodes.size();
  topology.distances.assign(count, std::vector<int>(count, 10));
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      if (a != b) topology.distances[a][b] = 11 + below(30);
    }
  }
}

// Whole; some CPUs; few CPUs; one package.
void RandomNodes::cut() {
  const int way = below(4);
  const int package = below(request_.topology.packages);
  std::vector<int>& allowed = request_.allowed_cpus;
  allowed.clear();
  for (const facts::Core& core : request_.topology.cores) {
    for (const int cpu : core.cpus) {
      if (way == 1 && one_in(3)) continue;
      if (way == 2 && !one_in(5)) continue;
      if (way == 3 && core.package != package) continue;
      allowed.push_back(cpu);
    }
  }
  if (allowed.empty()) allowed.push_back(request_.topology.cores.front().cpus.front());
  std::sort(allowed.begin(), allowed.end());
}

std::vector<int> RandomNodes::near_gpu() {
  if (one_in(10)) return {};
  std::vector<int> near;
  for (int nodes = one_in(5) ? 2 : 1; nodes > 0; --nodes) {
    const int node = below(static_cast<int>(request_.topology.nodes.size()));
    const std::vector<int>& cpus = request_.topology.nodes[static_cast<std::size_t>(node)].cpus;
    near.insert(near.end(), cpus.begin(), cpus.end());
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  if (!one_in(4)) return near;
  std::vector<int> left;
  std::set_intersection(near.begin(), near.end(), request_.allowed_cpus.begin(), request_.allowed_cpus.end(),
                        std::back_inserter(left));
  return left;
}

}  // namespace ddprun::test
