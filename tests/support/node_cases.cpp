#include "node_cases.hpp"

#include <algorithm>

#include "allocation_cases.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::test {

using nlohmann::json;
namespace fs = std::filesystem;

std::vector<int> cpus(const std::string& list) { return facts::parse_cpu_list(list).value(); }

NodeCase read_node_case(const std::string& machine) {
  NodeCase node;
  node.folder = data_folder("nodes") / machine;
  node.topology = facts::parse_topology(read_text(node.folder / "node.json"), machine);
  const json facts = read_json(node.folder / "facts.json");
  node.allowed = cpus(facts.at("allowed"));
  for (const json& worker : facts.at("workers"))
    node.devices.push_back({cpus(worker.at("near")), cpus(worker.at("expected"))});
  return node;
}

const std::vector<NodeCase>& node_cases() {
  static const std::vector<NodeCase> k_nodes = [] {
    std::vector<std::string> machines;
    for (const auto& entry : fs::directory_iterator(data_folder("nodes"))) {
      if (entry.is_directory()) machines.push_back(entry.path().filename().string());
    }
    std::sort(machines.begin(), machines.end());
    std::vector<NodeCase> nodes;
    for (const std::string& machine : machines) nodes.push_back(read_node_case(machine));
    return nodes;
  }();
  return k_nodes;
}

std::vector<std::vector<std::vector<int>>> near_gpus(const NodeCase& node, int workers) {
  std::vector<std::vector<std::vector<int>>> near(static_cast<std::size_t>(workers));
  for (std::size_t i = 0; i < std::min(near.size(), node.devices.size()); ++i)
    near[i].push_back(node.devices[i].near);
  return near;
}

placement::PlacementRequest request_for(const NodeCase& node, int workers) {
  placement::PlacementRequest request;
  request.topology = node.topology;
  request.allowed_cpus = node.allowed;
  request.near_gpus = near_gpus(node, workers);
  return request;
}

}  // namespace ddprun::test
