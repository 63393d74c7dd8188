// Contents of a picture of a node, before it is drawn: the text and the SVG have the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "plan/finalise.hpp"

namespace ddprun::render {

constexpr std::size_t k_workers_shown = 16;  // in lists of them

// Holder of a core or a device.
struct CpuHolder {
  enum class Kind {
    worker,     // one of this agent's
    several,    // held by more than one of them
    spare,      // held by none
    elsewhere,  // allowed, but not this agent's to give: another agent's, or no worker is bound
    forbidden,  // not among the CPUs this process may use
  };
  Kind kind = Kind::spare;
  int local_rank = 0;  // for Kind::worker
  friend bool operator==(const CpuHolder&, const CpuHolder&) = default;
};

struct CoreMark {
  std::vector<int> cpus;
  CpuHolder holder;
};
using CoreGroup = std::vector<CoreMark>;  // cores that share an L3

struct DeviceMark {
  facts::DeviceKind kind = facts::DeviceKind::gpu;
  std::string label;  // "GPU 3 0000:c1:00.0", "mlx5_2", "mlx5_3 (down)"; printable
  std::vector<CpuHolder>
      holders;          // up to four workers, else one of another kind; empty: none is given to workers
  int number = 0;       // among all devices of the layout
  std::string model{};  // model of a GPU: "A100-SXM4-40GB"; printable, empty: not known
};

// A worker's GPU and the card it is told to use, by DeviceMark::number.
struct DevicePair {
  int gpu = 0;
  int card = 0;
  int local_rank = 0;
};

// The cores of a package that belong to one NUMA node, or a NUMA node without cores.
struct NodeBox {
  std::vector<int> numbers;       // several: nodes that are alike, and only memory
  std::int64_t bytes = 0;         // bytes of each
  std::vector<CoreGroup> groups;  // empty: only memory
  std::vector<DeviceMark> devices;
};

struct PackageBox {
  int number = 0;
  std::vector<NodeBox> nodes;       // nodes with cores first
  std::vector<DeviceMark> devices;  // near the package, and not one of its NUMA nodes
};

struct NodeLayout {
  std::vector<PackageBox> packages;
  std::vector<NodeBox> memory;      // NUMA nodes without cores that are near no single package
  std::vector<int> empty_nodes;     // numbers of NUMA nodes that have nothing: place holders
  std::vector<DeviceMark> devices;  // near no package in particular
  std::vector<DevicePair> pairs;
  int sibling_distance = 0;  // CPU n is a core with CPU n + this; 0: not that regular
};

// Makes the layout; the snapshot has a topology.
NodeLayout make_node_layout(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot);

std::vector<const NodeBox*> boxes_of(const NodeLayout& layout);
std::vector<const DeviceMark*> devices_of(const NodeLayout& layout);

// Groups in lines of at most `columns` cells: a cell a core, and one between two groups. Larger groups are
// cut into equal parts; cores that share a cache with no other count as one group.
using CoreLine = std::vector<CoreGroup>;
std::vector<CoreLine> arrange(const std::vector<CoreGroup>& groups, std::size_t columns);

}  // namespace ddprun::render
