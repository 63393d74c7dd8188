// What placement promises, on ten thousand random nodes.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "catch.hpp"
#include "ddprun/facts/proc_text.hpp"
#include "random_nodes.hpp"

using namespace ddprun;
using namespace ddprun::test;

namespace {

using Cpus = std::vector<int>;

constexpr int k_nodes = 10'000;
constexpr std::uint32_t k_seed = 20261121;

Cpus both(const Cpus& a, const Cpus& b) {
  Cpus common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  return common;
}

// The allowed cores by their allowed CPUs, and their nodes' indexes.
struct Allowed {
  explicit Allowed(const PlacementRequest& request) {
    for (const Core& core : request.topology.cores) {
      Cpus left = both(core.cpus, request.allowed_cpus);
      if (left.empty()) continue;
      cores.push_back(std::move(left));
      nodes.push_back(core.node);
      packages.push_back(core.package);
    }
  }
  std::vector<Cpus> cores;
  std::vector<int> nodes;
  std::vector<int> packages;
};

bool is_bound(const Placement& placement) {
  return std::any_of(placement.workers.begin(), placement.workers.end(),
                     [](const Binding& worker) { return !worker.cpus.empty(); });
}

Cpus held_cpus(const Placement& placement) {
  Cpus held;
  for (const Binding& worker : placement.workers)
    held.insert(held.end(), worker.cpus.begin(), worker.cpus.end());
  std::sort(held.begin(), held.end());
  return held;
}

// Cores of the worker; -1 where it has one in part.
int count_cores(const Allowed& allowed, const Binding& worker) {
  int count = 0;
  for (const Cpus& core : allowed.cores) {
    const std::size_t own = both(core, worker.cpus).size();
    if (own != 0 && own != core.size()) return -1;
    count += own != 0 ? 1 : 0;
  }
  return count;
}

// Every way to bind: what is allowed, whole cores, nobody empty.
std::string check_workers(const PlacementRequest& request, const Placement& placement,
                          const Allowed& allowed) {
  if (placement.workers.size() != request.near_gpus.size()) return "a worker is missing";
  for (const Binding& worker : placement.workers) {
    if (worker.cpus.empty()) return "a worker has nothing";
    if (both(worker.cpus, request.allowed_cpus) != worker.cpus) return "a CPU is not allowed";
    if (count_cores(allowed, worker) < 0) return "siblings are apart";
  }
  Cpus held = held_cpus(placement);
  held.erase(std::unique(held.begin(), held.end()), held.end());
  Cpus all = held;
  all.insert(all.end(), placement.spare.begin(), placement.spare.end());
  std::sort(all.begin(), all.end());
  return all == request.allowed_cpus ? "" : "what is spare is not the rest";
}

std::string check_shared(const PlacementRequest& request, const Placement& placement,
                         const Allowed& allowed) {
  if (allowed.cores.size() < request.near_gpus.size()) {
    if (is_bound(placement) || !placement.spare.empty()) return "bound in spite of too few cores";
    return placement.notices.size() == 1 ? "" : "no word of too few cores";
  }
  if (request.near_gpus.size() == 1 && !is_bound(placement)) return "";
  const std::string wrong = check_workers(request, placement, allowed);
  if (!wrong.empty()) return wrong;
  const Cpus held = held_cpus(placement);
  return std::adjacent_find(held.begin(), held.end()) == held.end() ? "" : "two workers share a CPU";
}

std::string check_memory(const PlacementRequest& request, const Placement& placement,
                         const Allowed& allowed) {
  for (const Binding& worker : placement.workers) {
    if ((worker.policy == MemoryPolicy::untouched) != worker.memory_nodes.empty())
      return "a policy of nothing";
    if (worker.policy == MemoryPolicy::untouched) continue;
    const auto& nodes = request.topology.nodes;
    for (const int number : worker.memory_nodes) {
      const auto node = std::find_if(nodes.begin(), nodes.end(),
                                     [&](const MemoryNode& each) { return each.number == number; });
      if (node == nodes.end() || node->cpus.empty()) return "memory of a node without CPUs";
      const bool known = std::any_of(nodes.begin(), nodes.end(), [](const auto& n) { return n.bytes > 0; });
      if (known && node->bytes == 0) return "memory of a node without memory";
      const Cpus& may = request.allowed_memory_nodes;
      if (!may.empty() && !std::binary_search(may.begin(), may.end(), number)) return "memory is not allowed";
    }
    std::set<int> own;
    for (std::size_t i = 0; i < allowed.cores.size(); ++i) {
      if (!both(allowed.cores[i], worker.cpus).empty()) own.insert(allowed.nodes[i]);
    }
    if (own.size() != 1 || worker.memory_nodes.size() != 1) return "preferred memory of several nodes";
  }
  return "";
}

// The CPUs near any of a worker's GPUs; nothing where that is not known, or is everywhere.
std::vector<Cpus> near_of_each(const PlacementRequest& request) {
  std::vector<Cpus> near;
  const Cpus all = all_cpus(request.topology);
  for (const auto& gpus : request.near_gpus) {
    std::set<int> own;
    for (const Cpus& cpus : gpus) {
      if (cpus != all) own.insert(cpus.begin(), cpus.end());
    }
    near.emplace_back(own.begin(), own.end());
  }
  return near;
}

// Summed over the workers, the share of its cores that is near a GPU of its own.
double locality(const PlacementRequest& request, const Placement& placement) {
  const Allowed allowed(request);
  const std::vector<Cpus> near = near_of_each(request);
  double sum = 0;
  for (std::size_t i = 0; i < near.size(); ++i) {
    const bool unbound = placement.workers[i].cpus.empty();
    const Cpus& own = unbound ? request.allowed_cpus : placement.workers[i].cpus;
    double cores = 0;
    double close = 0;
    for (const Cpus& core : allowed.cores) {
      if (both(core, own).empty()) continue;
      cores += 1;
      close += both(core, near[i]).empty() ? 0 : 1;
    }
    sum += close / cores;
  }
  return sum;
}

bool has_gpus(const PlacementRequest& request) {
  const std::vector<Cpus> near = near_of_each(request);
  return std::any_of(near.begin(), near.end(), [](const Cpus& cpus) { return !cpus.empty(); });
}

Placement split_evenly(PlacementRequest request) {
  for (auto& gpus : request.near_gpus) gpus.clear();
  return place_workers(request);
}

// Runs `check` on every node; what it calls wrong is told with the node's number.
template <class Check>
void for_all_nodes(const Check& check) {
  RandomNodes nodes(k_seed);
  std::string wrong;
  int failures = 0;
  for (int i = 0; i < k_nodes && failures < 3; ++i) {
    const PlacementRequest request = nodes.next();
    const std::string found = check(request);
    if (found.empty()) continue;
    ++failures;
    wrong += fmt::format("node {} with {} workers on {}: {}\n", i, request.near_gpus.size(),
                         render_cpu_list(request.allowed_cpus), found);
  }
  CHECK(wrong == "");
}

}  // namespace

TEST_CASE("what placement promises holds on any node") {
  for_all_nodes([](const PlacementRequest& request) -> std::string {
    const Allowed allowed(request);
    const Placement placement = place_workers(request);
    std::string wrong = check_shared(request, placement, allowed);
    if (wrong.empty()) wrong = check_memory(request, placement, allowed);
    if (!wrong.empty() || !is_bound(placement) || !has_gpus(request)) return wrong;
    const double near = locality(request, placement);
    if (near >= static_cast<double>(request.near_gpus.size())) return "";
    return near >= locality(request, split_evenly(request)) - 1e-9 ? "" : "farther than an even split";
  });
}
