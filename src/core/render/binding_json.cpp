// JSON of the node and of the holders of its parts.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "render/node_words.hpp"
#include "render/render_json.hpp"

namespace ddprun::render {

namespace {

using Json = nlohmann::ordered_json;

Json unless_empty(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json nodes_json(const facts::Topology& topology) {
  Json nodes = Json::array();
  for (const facts::MemoryNode& node : topology.nodes) {
    nodes.push_back({{"number", node.number},
                     {"cpus", facts::render_cpu_list(node.cpus)},
                     {"memory_bytes", node.bytes > 0 ? Json(node.bytes) : Json()}});
  }
  return nodes;
}

Json gpus_json(const facts::HostFacts& host) {
  Json gpus = Json::array();
  for (const facts::Gpu& gpu : host.gpus) {
    gpus.push_back({{"vendor", gpu.vendor},
                    {"pci_address", unless_empty(gpu.pci_address)},
                    {"uuid", unless_empty(gpu.uuid)}});
  }
  return gpus;
}

Json cards_json(const facts::Topology& topology) {
  Json cards = Json::array();
  for (const facts::PciDevice& device : topology.devices) {
    if (device.kind == facts::DeviceKind::network)
      cards.push_back({{"pci_address", device.address}, {"names", device.names}});
  }
  return cards;
}

std::string not_allowed(const facts::HostFacts& host) {
  std::vector<int> cpus;
  for (const facts::Core& core : host.topology->cores) {
    for (const int cpu : core.cpus) {
      if (!std::ranges::binary_search(host.allowed_cpus, cpu)) cpus.push_back(cpu);
    }
  }
  std::ranges::sort(cpus);
  return facts::render_cpu_list(cpus);
}

std::ptrdiff_t count_cores(const std::vector<int>& cpus, const facts::Topology& topology) {
  const auto held = [&](int cpu) { return std::ranges::binary_search(cpus, cpu); };
  return std::ranges::count_if(topology.cores,
                               [&](const facts::Core& core) { return std::ranges::any_of(core.cpus, held); });
}

}  // namespace

Json binding_json(const plan::LaunchPlan& plan, const facts::HostFacts& host) {
  if (!host.topology) return {};
  Json json;
  json["origin"] = plan.binding.origin;
  json["topology"] = host.topology->source;
  json["packages"] = host.topology->packages;
  json["nodes"] = nodes_json(*host.topology);
  json["gpus"] = gpus_json(host);
  json["network_cards"] = cards_json(*host.topology);
  json["spare"] = facts::render_cpu_list(plan.binding.spare);
  json["not_allowed"] = not_allowed(host);
  return json;
}

Json worker_binding_json(const facts::Binding& binding, const facts::HostFacts& host) {
  if (binding == facts::Binding{}) return {};
  Json json;
  json["cpus"] = facts::render_cpu_list(binding.cpus);
  json["cores"] = host.topology ? Json(count_cores(binding.cpus, *host.topology)) : Json();
  json["memory_nodes"] = binding.memory_nodes;
  json["memory_policy"] =
      std::array{"untouched", "preferred", "bind"}.at(static_cast<std::size_t>(binding.policy));
  return json;
}

Json worker_gpus_json(const plan::PlannedWorker& worker, const facts::HostFacts& host) {
  Json gpus = Json::array();
  for (const int gpu : worker.gpus)
    gpus.push_back(unless_empty(host.gpus.at(static_cast<std::size_t>(gpu)).pci_address));
  return gpus;
}

}  // namespace ddprun::render
