#include <fmt/format.h>
#include <algorithm>
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

}  // namespace ddprun::placement
