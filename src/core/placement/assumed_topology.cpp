#include "placement/assumed_topology.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "placement/placement_parts.hpp"

namespace ddprun::placement {

namespace {

// Returns one for each device that the driver shows: a card's tiles or partitions follow each other, as the
// live ones.
std::vector<facts::Gpu> described_gpus(const facts::Topology& topology, int parts_of_each) {
  std::vector<facts::Gpu> gpus;
  for (const facts::PciDevice& device : topology.devices) {
    if (device.kind != facts::DeviceKind::gpu) continue;
    const facts::Gpu gpu{
        device.vendor.empty() ? "nvidia" : device.vendor, device.address, {}, device.cpus, {}, device.model};
    const auto parts = static_cast<std::size_t>(device.parts) * static_cast<std::size_t>(parts_of_each);
    gpus.insert(gpus.end(), parts, gpu);
  }
  return gpus;
}

std::vector<facts::Gpu> spread_gpus(const facts::Topology& topology, int count) {
  std::vector<const facts::MemoryNode*> nodes;
  for (const facts::MemoryNode& node : topology.nodes) {
    if (!node.cpus.empty()) nodes.push_back(&node);
  }
  std::vector<facts::Gpu> gpus;
  for (int i = 0; i < count; ++i) {
    const std::size_t node = static_cast<std::size_t>(i) * nodes.size() / static_cast<std::size_t>(count);
    gpus.push_back({"nvidia", {}, {}, nodes.empty() ? std::vector<int>() : nodes[node]->cpus, {}});
  }
  return gpus;
}

}  // namespace

void imagine_node(facts::HostFacts& host, const facts::Topology& topology,
                  const std::optional<Sourced<int>>& gpus) {
  host.topology = topology;
  if (topology.host.empty()) host.topology->host = topology.source;
  host.allowed_cpus = topology.allowed.empty() ? facts::all_cpus(topology) : topology.allowed;
  host.allowed_cores = static_cast<int>(std::ranges::count_if(
      topology.cores, [&](const facts::Core& core) { return overlap(core.cpus, host.allowed_cpus); }));
  host.online_cpus = static_cast<int>(host.allowed_cpus.size());
  host.cpu_quota.reset();
  host.allowed_memory_nodes.clear();
  for (const facts::MemoryNode& node : topology.nodes) host.allowed_memory_nodes.push_back(node.number);
  host.gpus = described_gpus(topology, 1);
  if (!gpus) return;
  const auto wanted = static_cast<std::size_t>(gpus->value);
  if (host.gpus.empty() && wanted > 0) {
    host.gpus = spread_gpus(topology, gpus->value);
    host.warnings.push_back(
        fmt::format("{} names no GPU, so {} are spread evenly over its NUMA nodes; `lstopo FILE.xml` on the "
                    "node itself shows more",
                    printable(topology.source), count_of(gpus->value, "GPU")));
    return;
  }
  const std::size_t described = host.gpus.size();
  if (wanted > described && described > 0 && wanted % described == 0) {
    host.gpus = described_gpus(topology, static_cast<int>(wanted / described));
    host.warnings.push_back(fmt::format("{} names {}: each is assumed to be {} of {} ({})",
                                        printable(topology.source),
                                        count_of(static_cast<std::int64_t>(described), "GPU"),
                                        wanted / described, gpus->value, gpus->origin));
    return;
  }
  if (wanted > described) {
    throw UsageError(fmt::format("{} asks for {}, but {} has {}", gpus->origin, gpus->value,
                                 printable(topology.source), host.gpus.size()),
                     "leave it out to use them all");
  }
  host.gpus.resize(wanted);
}

std::string node_name(const facts::HostFacts& facts, const std::string& host) {
  return facts.topology && !facts.topology->host.empty() ? printable(facts.topology->host, 60) : host;
}

}  // namespace ddprun::placement
