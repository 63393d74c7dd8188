// Cores near GPUs. Each GPU of a worker is a demand on the region its NUMA node lies in; each region's cores
// are shared out among the demands on it. A region has no more demands than cores: who finds no room near its
// GPU goes where its share is largest, then to the nearest, then to the lowest number.
#include <algorithm>
#include <limits>
#include <set>

#include "placement/placement_parts.hpp"

namespace ddprun::placement {

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
