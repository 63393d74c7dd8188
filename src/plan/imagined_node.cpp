#include "ddprun/plan/imagined_node.hpp"

#include <fmt/format.h>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

std::vector<Gpu> described_gpus(const Topology& topology) {
  std::vector<Gpu> gpus;
  for (const PciDevice& device : topology.devices) {
    if (device.kind == DeviceKind::gpu) gpus.push_back({"nvidia", device.address, {}, device.cpus, {}});
  }
  return gpus;
}

std::vector<Gpu> spread_gpus(const Topology& topology, int count) {
  std::vector<const MemoryNode*> nodes;
  for (const MemoryNode& node : topology.nodes) {
    if (!node.cpus.empty()) nodes.push_back(&node);
  }
  std::vector<Gpu> gpus;
  for (int i = 0; i < count; ++i) {
    const std::size_t node = static_cast<std::size_t>(i) * nodes.size() / static_cast<std::size_t>(count);
    gpus.push_back({"nvidia", {}, {}, nodes.empty() ? std::vector<int>() : nodes[node]->cpus, {}});
  }
  return gpus;
}

}  // namespace

void imagine_node(HostFacts& host, const Topology& topology, const std::optional<Sourced<int>>& gpus) {
  host.topology = topology;
  host.allowed_cpus = all_cpus(topology);
  host.allowed_cores = static_cast<int>(topology.cores.size());
  host.online_cpus = static_cast<int>(host.allowed_cpus.size());
  host.cpu_quota.reset();
  host.allowed_memory_nodes.clear();
  for (const MemoryNode& node : topology.nodes) host.allowed_memory_nodes.push_back(node.number);
  host.gpus = described_gpus(topology);
  if (!gpus) return;
  const auto wanted = static_cast<std::size_t>(gpus->value);
  if (host.gpus.empty() && wanted > 0) {
    host.gpus = spread_gpus(topology, gpus->value);
    host.doubts.push_back(
        fmt::format("{} names no GPU, so {} are spread evenly over its NUMA nodes; `lstopo FILE.xml` on the "
                    "node itself tells more",
                    printable(topology.source), count_of(gpus->value, "GPU")));
    return;
  }
  if (wanted > host.gpus.size()) {
    throw UsageError(fmt::format("{} asks for {}, but {} has {}", gpus->origin, gpus->value,
                                 printable(topology.source), host.gpus.size()),
                     "leave it out to take them all");
  }
  host.gpus.resize(wanted);
}

}  // namespace ddprun
