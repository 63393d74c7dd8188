// Parts of placement.cpp.
// The unit is a physical core with at least one allowed CPU, named by its index into PlacementInput::cores.
#pragma once

#include <algorithm>
#include <vector>

#include "placement/placement.hpp"

namespace ddprun::placement {

// Test whether two ascending lists (of CPUs, cores, NUMA nodes) have a number in common.

inline bool overlap(const std::vector<int>& few, const std::vector<int>& many) {
  return std::ranges::any_of(few, [&](int number) { return std::ranges::binary_search(many, number); });
}

using Cores = std::vector<int>;  // indexes into PlacementInput::cores, ascending
using Nodes = std::vector<int>;  // indexes into Topology::nodes, ascending

class CpuSet {
 public:
  explicit CpuSet(const std::vector<int>& cpus);
  bool contains(int cpu) const;
  bool contains_any(const std::vector<int>& cpus) const;

 private:
  std::vector<char> has_;  // indexed by CPU
};

// Cores to be shared out, and the workers that share them.
struct PlacementInput {
  const PlacementRequest& request;
  CpuSet allowed;
  std::vector<const facts::Core*>
      cores;  // in the order of the topology; whole, though not all their CPUs may be allowed
  std::vector<Cores> by_node;  // indexed by NUMA node
  // NUMA nodes near each GPU of each worker, allowed or not; empty: not known.
  std::vector<std::vector<Nodes>> near;
  std::vector<Nodes> near_any;  // indexed by worker: nodes near any of its GPUs

  const facts::Core& core(int index) const { return *cores[static_cast<std::size_t>(index)]; }

  int workers() const { return static_cast<int>(request.near_gpus.size()); }
};

PlacementInput make_placement_input(const PlacementRequest& request);

Cores every_core(const PlacementInput& input);
Nodes nodes_of(const PlacementInput& input, const Cores& cores);
Nodes with_cores(const PlacementInput& input, const Nodes& nodes);          // nodes with allowed cores
std::vector<int> cpus_of(const PlacementInput& input, const Cores& cores);  // the allowed ones, ascending
// Returns the distance: 10 is local, as in the SLIT; if that is not known, all others are equally far.
int distance_between(const facts::Topology& topology, int from, int to);

// Reports whether the location of any GPU is known.
bool knows_a_gpu(const PlacementInput& input);

// Cuts the cores into as many parts as there are workers, in core order, no part empty; needs as many cores.
// Cuts are made between packages while no part falls below three quarters of a fair one, else between NUMA
// nodes (seven eighths), else between L3 groups where that costs no part a core; what remains is cut evenly,
// and the first parts get the remainder. Of cores of several kinds every part has as many of each.
std::vector<Cores> share_out(const PlacementInput& input, const Cores& cores, int workers, bool whole_caches);

// Returns the cores near the workers' GPUs, without overlap and no share empty; needs as many cores as
// workers. Never farther from the GPUs, summed over the workers, than an even split.
struct NearShares {
  std::vector<Cores> workers;
  bool even = false;     // the even split was nearer, or nothing is near at all
  std::vector<int> far;  // workers that have no core near a GPU of known place
};
NearShares share_near_gpus(const PlacementInput& input, bool whole_caches);

// Gives NUMA nodes whose cores are all free to the workers with cores in the same package: so that the least
// of these has as many as possible, and each node to the nearest of those that lack some. Nodes in packages
// without a worker stay spare. Returns the nodes that were given away.
Nodes share_idle_nodes(const PlacementInput& input, std::vector<Cores>& workers);

// Returns the NUMA nodes a worker belongs to, each with allowed cores: those near its GPUs, else the one
// nearest to these, else, by its position among all workers.
std::vector<Nodes> find_numa_nodes(const PlacementInput& input);
// Take cores for the three modes with torchrun's names in which workers may overlap.
std::vector<Cores> take_nodes(const PlacementInput& input, const std::vector<Nodes>& numa_nodes);
std::vector<Cores> take_packages(const PlacementInput& input, const std::vector<Nodes>& numa_nodes);
std::vector<Cores> take_core_complexes(const PlacementInput& input, const std::vector<Nodes>& numa_nodes);

// The lists of BindMode::lists cut to what is allowed, siblings added where whole cores are meant. Throws
// UsageError where they do not fit the workers or leave one nothing.
struct ReadLists {
  std::vector<std::vector<int>> lists;
  std::vector<allocation::Notice> notices;
};
ReadLists read_lists(const PlacementRequest& request);

// Fills memory_nodes and policy of the workers, from the nodes of each one's cores; an unbound one has all.
void place_memory(const PlacementInput& input, const std::vector<Nodes>& workers, Placement& placement);

// Returns "worker 3", "workers 0-2,5".
std::string name_workers(const std::vector<int>& workers);

}  // namespace ddprun::placement
