#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "placement/placement_parts.hpp"

namespace ddprun::placement {

namespace {

constexpr int k_local_distance = 10;
constexpr int k_unknown_distance = 20;

void keep_each_once(std::vector<int>& numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// Counts of a NUMA node's cores.
struct Count {
  int near = 0;
  int all = 0;
};

// Returns the nodes most of whose cores are near, else the one with most. A list that the scheduler's cgroup
// has cut is compared with what it left of a node; where it left nothing, with the whole node. What is near
// every node is near none: so the kernel answers where the firmware tells nothing.
Nodes find_near_nodes(const facts::Topology& topology, const CpuSet& allowed, const CpuSet& near) {
  std::vector<Count> whole(topology.nodes.size());
  std::vector<Count> left(topology.nodes.size());
  for (const facts::Core& core : topology.cores) {
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

CpuSet::CpuSet(const std::vector<int>& cpus) {
  if (!cpus.empty()) has_.resize(static_cast<std::size_t>(*std::ranges::max_element(cpus)) + 1);
  for (const int cpu : cpus) has_[static_cast<std::size_t>(cpu)] = 1;
}

bool CpuSet::contains(int cpu) const {
  const auto index = static_cast<std::size_t>(cpu);
  return index < has_.size() && has_[index] != 0;
}

bool CpuSet::contains_any(const std::vector<int>& cpus) const {
  return std::ranges::any_of(cpus, [this](int cpu) { return contains(cpu); });
}

PlacementInput make_placement_input(const PlacementRequest& request) {
  PlacementInput input{request, CpuSet(request.allowed_cpus), {}, {}, {}, {}};
  input.by_node.resize(request.topology.nodes.size());
  for (const facts::Core& core : request.topology.cores) {
    if (!input.allowed.contains_any(core.cpus)) continue;
    input.by_node[static_cast<std::size_t>(core.node)].push_back(static_cast<int>(input.cores.size()));
    input.cores.push_back(&core);
  }
  for (const auto& gpus : request.near_gpus) {
    std::vector<Nodes>& near = input.near.emplace_back();
    Nodes& any = input.near_any.emplace_back();
    for (const std::vector<int>& cpus : gpus) {
      near.push_back(find_near_nodes(request.topology, input.allowed, CpuSet(cpus)));
      any.insert(any.end(), near.back().begin(), near.back().end());
    }
    keep_each_once(any);
  }
  return input;
}

Cores every_core(const PlacementInput& input) {
  Cores cores(input.cores.size());
  for (std::size_t i = 0; i < cores.size(); ++i) cores[i] = static_cast<int>(i);
  return cores;
}

Nodes nodes_of(const PlacementInput& input, const Cores& cores) {
  Nodes nodes;
  for (const int core : cores) {
    if (nodes.empty() || nodes.back() != input.core(core).node) nodes.push_back(input.core(core).node);
  }
  keep_each_once(nodes);
  return nodes;
}

Nodes with_cores(const PlacementInput& input, const Nodes& nodes) {
  Nodes kept;
  for (const int node : nodes) {
    if (!input.by_node[static_cast<std::size_t>(node)].empty()) kept.push_back(node);
  }
  return kept;
}

std::vector<int> cpus_of(const PlacementInput& input, const Cores& cores) {
  std::vector<int> cpus;
  for (const int core : cores) {
    for (const int cpu : input.core(core).cpus) {
      if (input.allowed.contains(cpu)) cpus.push_back(cpu);
    }
  }
  std::ranges::sort(cpus);
  return cpus;
}

int distance_between(const facts::Topology& topology, int from, int to) {
  if (topology.distances.empty()) return from == to ? k_local_distance : k_unknown_distance;
  return topology.distances[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
}

bool knows_a_gpu(const PlacementInput& input) {
  return std::ranges::any_of(input.near_any, [](const Nodes& nodes) { return !nodes.empty(); });
}

std::string name_workers(const std::vector<int>& workers) {
  return fmt::format("worker{} {}", workers.size() == 1 ? "" : "s", facts::render_cpu_list(workers));
}

namespace {

std::string allowed_hint(const PlacementRequest& request) {
  return fmt::format("the CPUs that may be used here: {}", facts::render_cpu_list(request.allowed_cpus));
}

// The listed CPUs cut to the allowed ones; with whole cores, a listed CPU stands for all of its core.
class ListReader {
 public:
  explicit ListReader(const PlacementRequest& request) : request_(request), allowed_(request.allowed_cpus) {}

  std::vector<int> read(const std::vector<int>& listed) {
    std::set<int> cpus;
    for (const int cpu : listed) {
      bool there = false;
      for (const int each : meant_by(cpu)) {
        if (!allowed_.contains(each)) continue;
        cpus.insert(each);
        there = true;
      }
      if (!there) left_out_.insert(cpu);
    }
    return {cpus.begin(), cpus.end()};
  }

  std::vector<int> left_out() const { return {left_out_.begin(), left_out_.end()}; }

 private:
  std::vector<int> meant_by(int cpu) const {
    if (request_.bind.whole_cores) {
      for (const facts::Core& core : request_.topology.cores) {
        if (std::ranges::binary_search(core.cpus, cpu)) return core.cpus;
      }
    }
    return {cpu};
  }

  const PlacementRequest& request_;
  CpuSet allowed_;
  std::set<int> left_out_;
};

}  // namespace

ReadLists read_lists(const PlacementRequest& request) {
  const std::size_t workers = request.near_gpus.size();
  const auto& lists = request.bind.lists;
  if (lists.size() != 1 && lists.size() != workers) {
    throw UsageError(fmt::format("{} has {} for {}", request.bind.origin,
                                 count_of(static_cast<std::int64_t>(lists.size()), "list"),
                                 count_of(static_cast<std::int64_t>(workers), "worker")),
                     "give a list for each worker, or a single one that all share");
  }
  ListReader reader(request);
  ReadLists read;
  for (const std::vector<int>& listed : lists) {
    read.lists.push_back(reader.read(listed));
    if (!read.lists.back().empty()) continue;
    const std::string whom = lists.size() == workers ? fmt::format("worker {}", read.lists.size() - 1)
                                                     : std::string("the workers");
    throw UsageError(fmt::format("{} leaves {} no CPU: none of {} may be used here", request.bind.origin,
                                 whom, facts::render_cpu_list(listed)),
                     allowed_hint(request));
  }
  const std::vector<int> left_out = reader.left_out();
  if (!left_out.empty()) {
    read.notices.push_back({fmt::format("{} names CPUs that may not be used here and are left out: {}",
                                        request.bind.origin, facts::render_cpu_list(left_out)),
                            allowed_hint(request)});
  }
  return read;
}

// Cores near GPUs. Each GPU of a worker is a demand on the region its NUMA node lies in; each region's cores
// are shared out among the demands on it. A region has no more demands than cores: who finds no room near its
// GPU goes where its share is largest, then to the nearest, then to the lowest number.

namespace {

// Nodes that the same GPUs are near to, mostly a single one.
struct Region {
  Nodes nodes;
  Cores cores;
  std::vector<int> workers;  // one entry for each demand
};

struct GpuDemand {
  int worker = 0;
  Nodes nodes;                    // near its GPU; empty: not known
  std::vector<std::size_t> near;  // the regions of these nodes, where they have cores
  bool settled = false;
};

class Settlement {
 public:
  explicit Settlement(const PlacementInput& input) : input_(input), holds_near_(input.near.size()) {
    make_regions();
    make_demands();
    for (std::size_t i = 0; i < regions_.size(); ++i) everywhere_.push_back(i);
  }

  // Settles one demand of each worker before any second one, and those near their GPU before the others.
  void settle() {
    std::vector<bool> holds(holds_near_.size());
    const auto give = [&](GpuDemand& demand, bool near) {
      const auto worker = static_cast<std::size_t>(demand.worker);
      if (!demand.settled && settle_in(demand, near ? demand.near : everywhere_)) {
        holds[worker] = true;
        if (near) holds_near_[worker] = true;
      }
    };
    for (const bool near : {true, false}) {
      for (GpuDemand& demand : demands_) {
        if (!holds[static_cast<std::size_t>(demand.worker)]) give(demand, near);
      }
    }
    for (GpuDemand& demand : demands_) give(demand, true);
    for (GpuDemand& demand : demands_) {
      if (!holds_near_[static_cast<std::size_t>(demand.worker)]) give(demand, false);
    }
  }

  std::vector<Cores> share(bool whole_caches) const {
    std::vector<Cores> workers(holds_near_.size());
    for (const Region& region : regions_) {
      if (region.workers.empty()) continue;
      std::vector<int> order = region.workers;
      std::ranges::sort(order);
      const auto parts = share_out(input_, region.cores, static_cast<int>(order.size()), whole_caches);
      for (std::size_t i = 0; i < order.size(); ++i) {
        Cores& own = workers[static_cast<std::size_t>(order[i])];
        own.insert(own.end(), parts[i].begin(), parts[i].end());
      }
    }
    for (Cores& own : workers) std::ranges::sort(own);
    return workers;
  }

 private:
  // Makes the regions. Several nodes are one if all GPUs near any of them are near all of them; else each is
  // its own.
  void make_regions() {
    std::set<Nodes> domains;
    for (const auto& gpus : input_.near) {
      for (const Nodes& nodes : gpus) domains.insert(with_cores(input_, nodes));
    }
    std::vector<bool> taken(input_.by_node.size());
    const auto add = [&](const Nodes& nodes) {
      Region& region = regions_.emplace_back();
      region.nodes = nodes;
      for (const int node : nodes) {
        const Cores& cores = input_.by_node[static_cast<std::size_t>(node)];
        region.cores.insert(region.cores.end(), cores.begin(), cores.end());
        taken[static_cast<std::size_t>(node)] = true;
      }
      std::ranges::sort(region.cores);
    };
    for (const Nodes& domain : domains) {
      const auto others =
          std::ranges::count_if(domains, [&](const Nodes& other) { return overlap(domain, other); });
      if (domain.size() > 1 && others == 1) add(domain);
    }
    for (std::size_t node = 0; node < taken.size(); ++node) {
      if (!taken[node] && !input_.by_node[node].empty()) add({static_cast<int>(node)});
    }
    std::ranges::sort(regions_, [](const Region& a, const Region& b) { return a.nodes < b.nodes; });
  }

  // Makes the demands; those with the fewest choices come first.
  void make_demands() {
    for (std::size_t worker = 0; worker < input_.near.size(); ++worker) {
      std::vector<Nodes> gpus = input_.near[worker];
      if (gpus.empty()) gpus.emplace_back();
      for (const Nodes& nodes : gpus) {
        GpuDemand& demand = demands_.emplace_back();
        demand.worker = static_cast<int>(worker);
        demand.nodes = nodes;
        for (std::size_t region = 0; region < regions_.size(); ++region) {
          if (overlap(nodes, regions_[region].nodes)) demand.near.push_back(region);
        }
      }
    }
    std::ranges::stable_sort(
        demands_, [](const GpuDemand& a, const GpuDemand& b) { return a.near.size() < b.near.size(); });
  }

  int distance_to(const GpuDemand& demand, const Region& region) const {
    int nearest = std::numeric_limits<int>::max();
    for (const int from : demand.nodes) {
      for (const int to : region.nodes)
        nearest = std::min(nearest, distance_between(input_.request.topology, from, to));
    }
    return nearest;
  }

  bool settle_in(GpuDemand& demand, const std::vector<std::size_t>& among) {
    Region* best = nullptr;
    for (const std::size_t index : among) {
      Region& region = regions_[index];
      if (region.workers.size() >= region.cores.size()) continue;
      if (best == nullptr) best = &region;
      const std::size_t share = region.cores.size() * (best->workers.size() + 1);
      const std::size_t best_share = best->cores.size() * (region.workers.size() + 1);
      if (share > best_share ||
          (share == best_share && distance_to(demand, region) < distance_to(demand, *best)))
        best = &region;
    }
    if (best == nullptr) return false;
    best->workers.push_back(demand.worker);
    return demand.settled = true;
  }

  const PlacementInput& input_;
  std::vector<Region> regions_;  // sorted by number of the first node
  std::vector<GpuDemand> demands_;
  std::vector<bool> holds_near_;  // indexed by worker: a demand of it was settled near its GPU
  std::vector<std::size_t> everywhere_;
};

// Counts the cores near any of the worker's GPUs.
std::size_t count_near(const PlacementInput& input, const Nodes& near, const Cores& cores) {
  return static_cast<std::size_t>(std::ranges::count_if(
      cores, [&](int core) { return std::ranges::binary_search(near, input.core(core).node); }));
}

// Returns the sum, over the workers, of the share of each one's cores that is near its GPUs.
double locality(const PlacementInput& input, const std::vector<Cores>& workers) {
  double sum = 0;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    sum += static_cast<double>(count_near(input, input.near_any[i], workers[i])) /
           static_cast<double>(workers[i].size());
  }
  return sum;
}

}  // namespace

NearShares share_near_gpus(const PlacementInput& input, bool whole_caches) {
  const std::vector<Nodes>& near = input.near_any;
  const auto known = std::ranges::count_if(near, [](const Nodes& nodes) { return !nodes.empty(); });

  Settlement settlement(input);
  settlement.settle();
  NearShares shares;
  shares.workers = settlement.share(whole_caches);
  const double found = locality(input, shares.workers);
  // If all workers are near their GPUs, nothing can be nearer. Else the even split may be, by chance.
  if (found < static_cast<double>(known)) {
    auto even = share_out(input, every_core(input), input.workers(), whole_caches);
    shares.even = found == 0 || locality(input, even) > found;
    if (shares.even) shares.workers = std::move(even);
  }
  for (std::size_t i = 0; i < near.size(); ++i) {
    if (!near[i].empty() && count_near(input, near[i], shares.workers[i]) == 0)
      shares.far.push_back(static_cast<int>(i));
  }
  return shares;
}

}  // namespace ddprun::placement
