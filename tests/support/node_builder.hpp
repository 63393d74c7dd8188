// Topologies made in a test: regular nodes as the machines of this world have them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "facts/topology.hpp"

namespace ddprun::test {

struct NodeShape {
  int packages = 1;
  int nodes = 1;   // NUMA nodes a package
  int caches = 1;  // L3 caches a NUMA node
  int cores = 1;   // cores a cache
  int threads = 1;
  // Siblings are CPU i and i + all cores, as Linux numbers them; else next to each other, as on POWER9.
  bool siblings_apart = true;
  std::int64_t node_bytes = std::int64_t{64} << 30;
};

// Nodes, packages and caches count from 0, cores of one cache are local peers; no devices, no distances.
facts::Topology build_topology(const NodeShape& shape);

// 0 .. number of hardware threads - 1.
std::vector<int> cpus_of(const NodeShape& shape);

// A NUMA node without CPUs; ascending numbers are the caller's business.
void add_memory(facts::Topology& topology, int number, std::int64_t bytes);

// A device local to the CPUs of the NUMA node with that index, or to none (-1); kept by address.
void add_device(facts::Topology& topology, facts::DeviceKind kind, const std::string& address, int node,
                const std::vector<std::string>& names = {});

}  // namespace ddprun::test
