#include "placement/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "placement/placement_parts.hpp"

namespace ddprun::placement {

namespace {

std::string count_cores(std::size_t cores) { return count_of(static_cast<std::int64_t>(cores), "core"); }

// Returns "GPU of worker 3", "GPUs of workers 0-2".
std::string name_gpus_of(const std::vector<int>& workers) {
  return fmt::format("GPU{} of {}", workers.size() == 1 ? "" : "s", name_workers(workers));
}

// Reports GPUs whose location the firmware hides, unless there is one node only.
void report_unknown_gpus(const PlacementInput& input, Placement& placement) {
  std::vector<int> workers;
  for (std::size_t i = 0; i < input.near.size(); ++i) {
    if (!input.near[i].empty() && input.near_any[i].empty()) workers.push_back(static_cast<int>(i));
  }
  if (workers.empty() || nodes_of(input, every_core(input)).size() < 2) return;
  placement.notices.push_back(
      {fmt::format("the cores near the {} are not known: cores are divided evenly", name_gpus_of(workers)),
       "choose them with --bind core:LIST:LIST..., a list for each worker"});
}

void report_far_workers(const std::vector<int>& far, Placement& placement) {
  if (far.empty()) return;
  placement.notices.push_back(
      {fmt::format("no allowed core is left near the {}: farther ones are used", name_gpus_of(far)),
       "let the scheduler grant the cores near the GPUs too, in Slurm with --exclusive or a larger -c"});
}

void leave_unbound(const PlacementInput& input, Placement& placement) {
  placement.origin = "not bound";
  if (input.cores.empty()) {
    placement.notices.push_back({fmt::format("{}: none of the allowed CPUs is in the topology ({})",
                                             "no worker is bound", input.request.topology.source),
                                 "leave --topology out, or add --bind none"});
    return;
  }
  placement.notices.push_back(
      {fmt::format("{} have {}: none of them is bound", count_of(input.workers(), "worker"),
                   count_cores(input.cores.size())),
       "start fewer workers with --nproc-per-node, or ask the scheduler for more cores"});
}

std::vector<Nodes> nodes_of_each(const PlacementInput& input, const std::vector<Cores>& workers) {
  std::vector<Nodes> nodes;
  for (const Cores& cores : workers) nodes.push_back(nodes_of(input, cores));
  return nodes;
}

std::string name_numa_nodes(const PlacementInput& input, const Nodes& nodes) {
  std::vector<int> numbers;
  for (const int node : nodes)
    numbers.push_back(input.request.topology.nodes[static_cast<std::size_t>(node)].number);
  return fmt::format("NUMA node{} {}", numbers.size() == 1 ? "" : "s", facts::render_cpu_list(numbers));
}

// Cores of each worker, and the NUMA nodes its memory comes from.
struct Shares {
  std::vector<Cores> cores;
  std::vector<Nodes> memory;
};

// Shares out the cores near the GPUs; an even split if no GPU's place is known.
Shares share_all(const PlacementInput& input, Placement& placement) {
  const options::BindMode mode = input.request.bind.mode;
  const bool whole_caches = mode != options::BindMode::exclusive;
  report_unknown_gpus(input, placement);
  NearShares near;
  if (knows_a_gpu(input)) {
    near = share_near_gpus(input, whole_caches);
    report_far_workers(near.far, placement);
  } else {
    near = {share_out(input, every_core(input), input.workers(), whole_caches), true, {}};
  }
  Shares shares{std::move(near.workers), {}};
  shares.memory = nodes_of_each(input, shares.cores);
  placement.origin = near.even ? "even split of " + count_cores(input.cores.size()) : "cores near each GPU";
  if (mode != options::BindMode::automatic || near.even) return shares;
  const Nodes idle = share_idle_nodes(input, shares.cores);
  if (!idle.empty()) placement.origin += ", then those of " + name_numa_nodes(input, idle);
  // With --membind=bind a worker needs the memory of every NUMA node that it has cores on.
  if (input.request.memory == options::MemoryBind::bind) shares.memory = nodes_of_each(input, shares.cores);
  return shares;
}

// Takes cores for the modes node, socket, core-complex.
std::vector<Cores> take(const PlacementInput& input, Placement& placement) {
  const std::vector<Nodes> numa_nodes = find_numa_nodes(input);
  const bool by_gpu = knows_a_gpu(input);
  report_unknown_gpus(input, placement);
  std::vector<int> far;
  for (std::size_t i = 0; i < numa_nodes.size(); ++i) {
    const Nodes& near = input.near_any[i];
    if (!near.empty() && !std::includes(near.begin(), near.end(), numa_nodes[i].begin(), numa_nodes[i].end()))
      far.push_back(static_cast<int>(i));
  }
  report_far_workers(far, placement);
  switch (input.request.bind.mode) {
    case options::BindMode::node:
      placement.origin = by_gpu ? "NUMA node of each GPU" : "a NUMA node each";
      return take_nodes(input, numa_nodes);
    case options::BindMode::socket:
      placement.origin = by_gpu ? "package of each GPU" : "a package each";
      return take_packages(input, numa_nodes);
    default:
      placement.origin = by_gpu ? "an L3 group near each GPU" : "an L3 group each";
      return take_core_complexes(input, numa_nodes);
  }
}

void find_spare(const PlacementRequest& request, Placement& placement) {
  std::vector<int> held;
  for (const facts::Binding& worker : placement.workers)
    held.insert(held.end(), worker.cpus.begin(), worker.cpus.end());
  if (held.empty()) return;
  std::ranges::sort(held);
  std::set_difference(request.allowed_cpus.begin(), request.allowed_cpus.end(), held.begin(), held.end(),
                      std::back_inserter(placement.spare));
}

Placement place_by_topology(const PlacementRequest& request) {
  const PlacementInput input = make_placement_input(request);
  const options::BindMode mode = request.bind.mode;
  const bool shared = mode == options::BindMode::automatic || mode == options::BindMode::near ||
                      mode == options::BindMode::exclusive;
  Placement placement;
  placement.workers.resize(request.near_gpus.size());
  std::vector<Nodes> memory(placement.workers.size());
  if (input.cores.empty() || (shared && input.cores.size() < placement.workers.size())) {
    leave_unbound(input, placement);
  } else {
    Shares shares;
    if (shared) {
      shares = share_all(input, placement);
    } else {
      shares.cores = take(input, placement);
      shares.memory = nodes_of_each(input, shares.cores);
    }
    for (std::size_t i = 0; i < shares.cores.size(); ++i)
      placement.workers[i].cpus = cpus_of(input, shares.cores[i]);
    memory = std::move(shares.memory);
  }
  facts::Binding& first = placement.workers.front();
  const bool single =
      memory.size() == 1 && (mode == options::BindMode::automatic || mode == options::BindMode::near);
  if (single && first.cpus == request.allowed_cpus && memory.front() == nodes_of(input, every_core(input))) {
    first.cpus.clear();
    placement.origin = "not bound: one worker has all CPUs";
  }
  place_memory(input, memory, placement);
  return placement;
}

Placement place_by_own_lists(const PlacementRequest& request, std::vector<std::vector<int>> lists) {
  const PlacementInput input = make_placement_input(request);
  Placement placement;
  std::vector<Nodes> nodes;
  for (std::vector<int>& list : lists) {
    Cores cores;
    for (const int core : every_core(input)) {
      if (overlap(input.core(core).cpus, list)) cores.push_back(core);
    }
    nodes.push_back(nodes_of(input, cores));
    placement.workers.push_back({std::move(list), {}, facts::MemoryPolicy::untouched});
  }
  placement.origin = "a list for each worker";
  place_memory(input, nodes, placement);
  return placement;
}

// Binds all workers to the same CPUs if a list has too few for one each: these are still the ones that were
// asked for.
void share_list(const PlacementRequest& request, Placement& placement) {
  for (facts::Binding& worker : placement.workers) worker.cpus = request.allowed_cpus;
  placement.origin = "the same CPUs for all workers";
  const auto cpus = static_cast<std::int64_t>(request.allowed_cpus.size());
  placement.notices = {{fmt::format("{} share the {} of {}",
                                    count_of(static_cast<std::int64_t>(placement.workers.size()), "worker"),
                                    count_of(cpus, "CPU"), request.bind.origin),
                        "name more cores, or a list for each worker as in core:0-7:8-15"}};
}

Placement place_by_lists(const PlacementRequest& request) {
  ReadLists read = read_lists(request);
  Placement placement;
  if (read.lists.size() == request.near_gpus.size()) {
    placement = place_by_own_lists(request, std::move(read.lists));
  } else {
    PlacementRequest within = request;
    within.allowed_cpus = std::move(read.lists.front());
    within.bind.mode = options::BindMode::automatic;
    placement = place_by_topology(within);
    if (placement.workers.front().cpus.empty()) share_list(within, placement);
  }
  placement.notices.insert(placement.notices.begin(), read.notices.begin(), read.notices.end());
  return placement;
}

}  // namespace

Placement place_workers(const PlacementRequest& request) {
  const options::BindMode mode = request.bind.mode;
  Placement placement;
  if (mode == options::BindMode::none || request.near_gpus.empty()) {
    placement.workers.resize(request.near_gpus.size());
    placement.origin = "not bound";
  } else {
    placement = mode == options::BindMode::lists ? place_by_lists(request) : place_by_topology(request);
    find_spare(request, placement);
  }
  if (mode == options::BindMode::automatic) return placement;
  const std::string word = mode == options::BindMode::lists ? "" : " " + options::to_string(mode);
  placement.origin += fmt::format(" ({}{})", request.bind.origin, word);
  return placement;
}

}  // namespace ddprun::placement
