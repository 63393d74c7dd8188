// The machines of tests/data/nodes (make_nodes.py there): their topology, and where their workers belong.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "facts/topology.hpp"
#include "placement/placement.hpp"

namespace ddprun::test {

struct NodeCase {
  struct Device {
    std::vector<int> near;      // CPUs
    std::vector<int> expected;  // of its worker, with one worker for each device on the whole node
  };
  std::filesystem::path folder;
  facts::Topology topology;
  std::vector<int> allowed;  // CPUs that the system leaves to jobs
  std::vector<Device> devices;
};

// All of them, read once.
const std::vector<NodeCase>& node_cases();
NodeCase read_node_case(const std::string& machine);

// PlacementRequest::near_gpus: worker i has device i; where there are more workers, the last have none.
std::vector<std::vector<std::vector<int>>> near_gpus(const NodeCase& node, int workers);
placement::PlacementRequest request_for(const NodeCase& node, int workers);

// CPUs in place of a list; throws for what is none.
std::vector<int> cpus(const std::string& list);

}  // namespace ddprun::test
