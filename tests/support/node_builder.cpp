#include "node_builder.hpp"

#include <algorithm>
#include <numeric>

namespace ddprun::test {

namespace {

int core_count(const NodeShape& shape) { return shape.packages * shape.nodes * shape.caches * shape.cores; }

}  // namespace

facts::Topology build_topology(const NodeShape& shape) {
  const int all = core_count(shape);
  const int in_node = shape.caches * shape.cores;
  facts::Topology topology;
  topology.source = "hwloc 2.9.0";
  topology.packages = shape.packages;
  for (int node = 0; node < shape.packages * shape.nodes; ++node)
    topology.nodes.push_back({node, {}, shape.node_bytes});
  for (int number = 0; number < all; ++number) {
    facts::Core core;
    core.node = number / in_node;
    core.package = core.node / shape.nodes;
    core.cache = number / shape.cores;
    for (int thread = 0; thread < shape.threads; ++thread)
      core.cpus.push_back(shape.siblings_apart ? number + thread * all : number * shape.threads + thread);
    auto& cpus = topology.nodes[static_cast<std::size_t>(core.node)].cpus;
    cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
    topology.cores.push_back(std::move(core));
  }
  for (facts::MemoryNode& node : topology.nodes) std::sort(node.cpus.begin(), node.cpus.end());
  return topology;
}

std::vector<int> cpus_of(const NodeShape& shape) {
  std::vector<int> cpus(static_cast<std::size_t>(core_count(shape) * shape.threads));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

void add_memory(facts::Topology& topology, int number, std::int64_t bytes) {
  topology.nodes.push_back({number, {}, bytes});
}

void add_device(facts::Topology& topology, facts::DeviceKind kind, const std::string& address, int node,
                const std::vector<std::string>& names) {
  facts::PciDevice device{kind, address, names, {}, {}};
  if (node >= 0) device.cpus = topology.nodes[static_cast<std::size_t>(node)].cpus;
  const auto later = [&](const facts::PciDevice& other) { return other.address > address; };
  topology.devices.insert(std::find_if(topology.devices.begin(), topology.devices.end(), later),
                          std::move(device));
}

}  // namespace ddprun::test
