#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

#include "facts/proc_text.hpp"
#include "placement/placement_parts.hpp"

namespace ddprun::placement {

// Cores among workers, by bisection: the cut between two packages, NUMA nodes or L3 groups that leaves the
// smaller side the most for each of its workers, then the same for both sides. So packages that a mask has
// made unequal get workers in proportion, and groups that divide evenly stay whole.

namespace {

// Cores for each worker, as a fraction.
struct Share {
  std::int64_t cores = 0;
  std::int64_t workers = 1;
  friend bool operator<(const Share& a, const Share& b) { return a.cores * b.workers < b.cores * a.workers; }
};

struct Cut {
  std::size_t at = 0;  // cores left of it
  int workers = 0;     // left of it
  Share least;         // lesser share of its two sides
};

enum class Level { package, node, cache };

class Sharer {
 public:
  Sharer(const PlacementInput& input, Share fair, bool whole_caches)
      : input_(input), fair_(fair), whole_caches_(whole_caches) {}

  void split(std::span<const int> cores, int workers) {
    for (const Level level : {Level::package, Level::node, Level::cache}) {
      if (workers == 1 || (level == Level::cache && !whole_caches_)) break;
      const Cut cut = best_cut(cores, workers, level);
      if (cut.workers == 0 || !is_enough(cut.least, level)) continue;
      split(cores.first(cut.at), cut.workers);
      split(cores.subspan(cut.at), workers - cut.workers);
      return;
    }
    slice(cores, static_cast<std::size_t>(workers));
  }

  std::vector<Cores> shares;

 private:
  bool is_boundary(int left, int right, Level level) const {
    const facts::Core& a = input_.core(left);
    const facts::Core& b = input_.core(right);
    if (a.package != b.package) return true;
    if (level == Level::package) return false;
    return a.node != b.node || (level == Level::cache && a.cache != b.cache);
  }

  // Reports whether a cut at this level leaves enough. A worker across two packages has half its memory far
  // away: rather a quarter fewer cores than that. Two nodes of one package are nearly as near as one: that is
  // worth an eighth. One across two L3 groups loses little: that is not worth a core.
  bool is_enough(Share least, Level level) const {
    if (level == Level::cache) return least.cores / least.workers >= fair_.cores / fair_.workers;
    const std::int64_t eighths = level == Level::package ? 6 : 7;
    return !(least < Share{fair_.cores * eighths, fair_.workers * 8});
  }

  Cut best_cut(std::span<const int> cores, int workers, Level level) const {
    Cut best;
    const auto all = static_cast<std::int64_t>(cores.size());
    for (std::size_t at = 1; at < cores.size(); ++at) {
      if (!is_boundary(cores[at - 1], cores[at], level)) continue;
      const auto left = static_cast<std::int64_t>(at);
      const std::int64_t fair = left * workers / all;
      for (const std::int64_t here : {fair, fair + 1}) {
        const std::int64_t there = workers - here;
        if (here < 1 || there < 1) continue;
        const Share least = std::min(Share{left, here}, Share{all - left, there});
        if (best.least < least) best = {at, static_cast<int>(here), least};
      }
    }
    return best;
  }

  void slice(std::span<const int> cores, std::size_t workers) {
    const std::size_t size = cores.size() / workers;
    const std::size_t remainder = cores.size() % workers;
    for (std::size_t i = 0, from = 0; i < workers; ++i) {
      const auto slice = cores.subspan(from, size + (i < remainder ? 1 : 0));
      shares.emplace_back(slice.begin(), slice.end());
      from += slice.size();
    }
  }

  const PlacementInput& input_;
  Share fair_;
  bool whole_caches_;
};

}  // namespace

namespace {

// Deals the cores out. Those of the fast kind are not worth the same as slow ones: each worker has some of
// each. A worker that has one more of a kind is the last to have one more of the next.
std::vector<Cores> deal_out(const std::map<int, Cores>& kinds, std::size_t workers) {
  std::vector<Cores> shares(workers);
  std::size_t first = 0;
  for (const auto& [kind, cores] : kinds) {
    const std::size_t remainder = cores.size() % workers;
    auto next = cores.begin();
    for (std::size_t i = 0; i < workers; ++i) {
      const bool one_more = (i + workers - first) % workers < remainder;
      const auto count = static_cast<std::ptrdiff_t>(cores.size() / workers + (one_more ? 1 : 0));
      shares[i].insert(shares[i].end(), next, next + count);
      next += count;
    }
    first = (first + remainder) % workers;
  }
  for (Cores& own : shares) std::ranges::sort(own);
  return shares;
}

}  // namespace

std::vector<Cores> share_out(const PlacementInput& input, const Cores& cores, int workers,
                             bool whole_caches) {
  std::map<int, Cores> kinds;
  for (const int core : cores) kinds[input.core(core).kind].push_back(core);
  if (kinds.size() > 1) return deal_out(kinds, static_cast<std::size_t>(workers));
  Sharer sharer(input, {static_cast<std::int64_t>(cores.size()), workers}, whole_caches);
  sharer.split(cores, workers);
  return std::move(sharer.shares);
}

// Distribution of cores on NUMA nodes without a GPU.
// If several NUMA nodes make a package (NPS4, SNC4), only some of them have a GPU. Cores of the others are a
// little farther from it, and far better than none.

namespace {

struct SharingWorker {
  std::size_t worker = 0;
  Nodes nodes;  // nodes of its cores
  std::size_t lacks = 0;
};

// Gives each next core to the worker with the fewest, of these the first.
void find_lacks(std::vector<SharingWorker>& sharing, const std::vector<Cores>& workers, std::size_t cores) {
  using Held = std::pair<std::size_t, std::size_t>;  // cores, worker
  std::priority_queue<Held, std::vector<Held>, std::greater<>> levels;
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

// The modes in which workers may overlap, as torch/numa/binding.py of torch 2.14 has them, over nodes that
// have allowed cores.

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
