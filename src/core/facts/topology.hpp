// Parts of one node, as a plain value.
// os/libraries/topology fills it from hwloc, a file or a description; planning reads it. It is the whole
// node; what a process may use of it is asked for separately.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "facts/json_reader.hpp"

namespace ddprun::facts {

// A physical core.
struct Core {
  std::vector<int> cpus;  // its hardware threads (SMT siblings), ascending; never empty
  int package = 0;        // 0 .. Topology::packages - 1
  int node = 0;           // index into Topology::nodes: the node its memory comes from by default
  int cache = 0;          // cores with the same number share an L3 (or, without one, what comes next below)
  int kind = 0;           // on hybrid processors: cores of one number are equally fast
  friend bool operator==(const Core&, const Core&) = default;
};

// A NUMA node. Memory of GPUs (GH200, POWER9) and on-package HBM (Xeon Max) are nodes without CPUs.
struct MemoryNode {
  int number = 0;          // the kernel's: node<number>
  std::vector<int> cpus;   // ascending; empty: only memory
  std::int64_t bytes = 0;  // 0: no memory, or not known
  friend bool operator==(const MemoryNode&, const MemoryNode&) = default;
};

enum class DeviceKind { gpu, network };

// Network that an RDMA card is connected to; `down` if none of its ports is active.
enum class CardLink { unknown, infiniband, ethernet, down };

struct PciDevice {
  DeviceKind kind = DeviceKind::gpu;
  std::string address;             // "0000:c1:00.0"
  std::vector<std::string> names;  // the kernel's: "mlx5_0", "ib0", "cxi0", "hsn0", "card1"; may be empty
  // The bridges between the host bridge and the device, outermost first: two devices are the closer, the more
  // of these they share.
  std::vector<std::string> path;
  std::vector<int> cpus;  // local to it; empty: the firmware does not tell
  std::string vendor{};   // vendor of a GPU: "nvidia", "amd", "intel"; empty: not known
  std::string model{};    // name of a GPU: "NVIDIA A100-SXM4-40GB"; empty: not known
  int parts = 1;          // devices that a GPU's driver shows (tiles, partitions)
  std::string rdma{};     // RDMA or Slingshot device of a card, one of `names`; empty: none, or not known
  CardLink link = CardLink::unknown;
  friend bool operator==(const PciDevice&, const PciDevice&) = default;
};

struct Topology {
  std::string source;             // for the user: "hwloc 2.9.0", "node.xml", "affinity mask alone"
  std::vector<Core> cores;        // sorted by package, node, cache, first CPU
  std::vector<MemoryNode> nodes;  // ascending by number
  int packages = 1;
  // distances[i][j]: from nodes[i] to nodes[j], 10 is local (ACPI SLIT). Empty: not known.
  std::vector<std::vector<int>> distances;
  std::vector<PciDevice> devices;  // sorted by address
  std::string host{};              // the node's name, where its description tells
  std::vector<int> allowed{};      // ascending: what a description leaves to programs; empty: all CPUs
  friend bool operator==(const Topology&, const Topology&) = default;
};

// Returns the topology assumed when no source is available: every CPU a core of one node.
Topology make_flat_topology(const std::vector<int>& cpus);

std::vector<int> all_cpus(const Topology& topology);  // ascending

// Returns the address as sysfs writes it: of "00000000:C1:00.0" (nvidia-smi), "0000:c1:00.0" (sysfs),
// "c1:00.0".
std::string normal_pci_address(const std::string& address);

// The hint of every complaint about one.
inline constexpr const char* k_topology_forms =
    "a topology is an XML file of hwloc 2 (lstopo node.xml), a JSON file (the \"topology\" of ddprun "
    "--capture), one of these on standard input (-), or a synthetic description such as \"pack:2 core:8 "
    "pu:2\"";

// Renders the JSON of a --topology file and of a snapshot's "topology". CPU lists are texts such as
// "0-7,64-71".
std::string render_topology(const Topology& topology);
// Throws Error naming `source`, the key and what is wrong with it.
Topology parse_topology(const std::string& json, const std::string& source);

// The JSON of a topology, alone or inside a snapshot.

using OrderedJson = nlohmann::ordered_json;

inline constexpr const char* k_cpu_list = "a list of CPUs such as 0-3,8";

OrderedJson render_topology_object(const Topology& topology);
Topology read_topology(JsonReader object);

}  // namespace ddprun::facts
