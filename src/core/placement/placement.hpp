// CPUs and memory of each worker of a node: the product's answer to numactl and --cpu-bind.
#pragma once

#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "facts/binding.hpp"
#include "facts/topology.hpp"
#include "options/bind_choice.hpp"

namespace ddprun::placement {

struct PlacementRequest {
  facts::Topology topology;               // topology of the whole node
  std::vector<int> allowed_cpus;          // ascending; what these workers may use together
  std::vector<int> allowed_memory_nodes;  // ascending; empty: not known, all
  options::BindChoice bind;
  options::MemoryBind memory = options::MemoryBind::automatic;
  // CPUs near each GPU of each worker, by local rank; an empty list, and one of all CPUs: not known. A worker
  // without GPUs has none.
  std::vector<std::vector<std::vector<int>>> near_gpus;
};

struct Placement {
  std::vector<facts::Binding> workers;  // in the order of the request
  std::vector<int> spare;  // allowed CPUs that no worker holds; empty also where nothing is bound
  std::string origin;      // for the user: "cores near each GPU", "even split of 64 cores", ...
  std::vector<allocation::Notice> notices;  // demands that are not met; the same for all agents of a node
};

// Promises, for BindMode::near: a pure function of the request; nothing outside allowed_cpus; siblings
// stay together; no overlap and nobody empty while there are at least as many allowed cores as workers, else
// nobody is bound and a notice says so. Summed over the workers, the share of their cores that is near their
// GPUs is never below an even split's. Cores of NUMA nodes that nobody's GPU is near stay spare, unless some
// worker needs them. BindMode::automatic adds these to the workers of their package, so that the least of
// them has as many as possible; a single worker that would get all nodes it is near to is not bound.
//
// MemoryBind::automatic prefers the node of a worker whose near cores lie in one, where there are several to
// choose from. Nodes without CPUs, a GPU's own memory for one, are never chosen.
//
// Throws UsageError for lists that do not fit the workers, or leave one without any allowed CPU.
Placement place_workers(const PlacementRequest& request);

}  // namespace ddprun::placement
