// hwloc runs in a child, or is about to: its plug-ins (OpenCL, CUDA, NVML, X11) take long, may hang, and
// bring another hwloc along, so they are kept from loading; and what it prints becomes the reason of an
// error.
#include "ddprun/os/topology.hpp"

#include <fmt/format.h>
#include <hwloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/facts/gpu_text.hpp"
#include "ddprun/facts/proc_text.hpp"
#include "ddprun/os/capture_pci.hpp"
#include "ddprun/os/child_call.hpp"
#include "ddprun/os/fd.hpp"
#include "ddprun/os/read_file.hpp"

namespace ddprun {

namespace {

constexpr std::size_t k_file_limit = 16 << 20;
constexpr Milliseconds k_load_deadline{10000};
constexpr const char* k_hint =
    "a topology is an XML file of hwloc (lstopo node.xml), a JSON file (the \"topology\" of ddprun "
    "--capture), "
    "or a synthetic description such as \"pack:2 core:8 pu:2\"";

// Variables that would make hwloc read another machine, load plug-ins or print. One stays: an administrator's
// correction of what the firmware says about PCI.
void quiet_hwloc() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with("HWLOC_") && name != "HWLOC_PCI_LOCALITY") names.emplace_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
  ::setenv("HWLOC_PLUGINS_PATH", "", 1);
  ::setenv("HWLOC_XML_VERBOSE", "1", 1);
  ::setenv("HWLOC_SYNTHETIC_VERBOSE", "1", 1);
  ::setenv("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1", 1);
}

// Standard error of this process, as a file in memory from now on.
class KeptErrors {
 public:
  KeptErrors() : file_(::memfd_create("errors", MFD_CLOEXEC)) {
    if (file_) ::dup2(file_.get(), STDERR_FILENO);
  }
  // The last line that was printed, else what errno says.
  std::string reason(int error) const {
    char text[4096];
    const ssize_t got = file_ ? ::pread(file_.get(), text, sizeof text, 0) : 0;
    std::vector<std::string> lines;
    if (got > 0) lines = split(std::string_view(text, static_cast<std::size_t>(got)), '\n');
    std::erase_if(lines, [](const std::string& line) { return trim(line).empty(); });
    if (lines.empty()) return to_lower(error == 0 ? "no reason given" : std::strerror(error));
    return printable(trim(lines.back()));
  }

 private:
  Fd file_;
};

std::vector<int> numbers_of(hwloc_const_bitmap_t set) {
  std::vector<int> numbers;
  if (set == nullptr || hwloc_bitmap_weight(set) < 0) return numbers;
  for (int i = hwloc_bitmap_first(set); i >= 0 && i <= k_highest_cpu; i = hwloc_bitmap_next(set, i))
    numbers.push_back(i);
  return numbers;
}

std::vector<int> common(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

std::string address_of(const PciAttributes& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

class HwlocTopology {
 public:
  HwlocTopology() {
    quiet_hwloc();
    require(hwloc_topology_init(&topology_) == 0);
    unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
#if HWLOC_API_VERSION >= 0x00020500
    flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#endif
#if HWLOC_API_VERSION >= 0x00020800
    flags |= HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
#endif
    require(hwloc_topology_set_flags(topology_, flags) == 0);
    hwloc_topology_set_all_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_NONE);
    for (const auto type : {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_CORE})
      hwloc_topology_set_type_filter(topology_, type, HWLOC_TYPE_FILTER_KEEP_ALL);
    // Without groups hwloc gives a NUMA node that is part of a package all CPUs of the package.
    hwloc_topology_set_type_filter(topology_, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  }
  HwlocTopology(const HwlocTopology&) = delete;
  HwlocTopology& operator=(const HwlocTopology&) = delete;
  ~HwlocTopology() {
    if (topology_ != nullptr) hwloc_topology_destroy(topology_);
  }

  // Reads this machine, without its devices (os/capture_pci). The x86 component would run cpuid on every CPU,
  // one after the other, for names of models.
  void load_here() {
    hwloc_topology_set_components(topology_, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    require(hwloc_topology_load(topology_) == 0);
  }
  void load_xml(const std::string& xml) {
    hwloc_topology_set_io_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    // With its final zero byte, as hwloc wants it.
    require(hwloc_topology_set_xmlbuffer(topology_, xml.c_str(), static_cast<int>(xml.size() + 1)) == 0);
    require(hwloc_topology_load(topology_) == 0);
  }
  void load_synthetic(const std::string& description) {
    require(hwloc_topology_set_synthetic(topology_, description.c_str()) == 0);
    require(hwloc_topology_load(topology_) == 0);
  }

  // "hwloc 2.9.0", of the library and not of its header.
  std::string version() const {
    const char* const text = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology_), "hwlocVersion");
    return fmt::format("hwloc{}{}", text == nullptr ? "" : " ", text == nullptr ? "" : text);
  }

  Topology read(std::string source) {
    result_.source = std::move(source);
    read_nodes();
    read_cores();
    read_distances();
    read_devices();
    return std::move(result_);
  }

 private:
  void require(bool good) const {
    if (!good) throw Error(errors_.reason(errno));
  }

  // Objects of one type, in hwloc's order.
  template <class Use>
  void each(hwloc_obj_type_t type, Use use) const {
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_type(topology_, type, object)) != nullptr;)
      use(object);
  }

  // hwloc gives memory without CPUs (HBM, GPU memory) the CPUs it is near to. The kernel's first node with a
  // CPU is the one it belongs to; in all machines known, plain memory has the lower numbers.
  void read_nodes() {
    each(HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t node) { numa_.push_back(node); });
    std::sort(numa_.begin(), numa_.end(),
              [](hwloc_obj_t a, hwloc_obj_t b) { return a->os_index < b->os_index; });
    for (const hwloc_obj_t node : numa_) {
      MemoryNode memory;
      memory.number = static_cast<int>(node->os_index);
      memory.bytes = static_cast<std::int64_t>(node->attr->numanode.local_memory);
      for (const int cpu : numbers_of(node->cpuset)) {
        const bool first = node_of_cpu_.emplace(cpu, static_cast<int>(result_.nodes.size())).second;
        if (first) memory.cpus.push_back(cpu);
      }
      result_.nodes.push_back(std::move(memory));
    }
    if (numa_.empty()) throw Error("it has no NUMA node");
  }

  // What a core shares with its neighbours: the L3, else the L2, else the package as far as its NUMA node
  // goes.
  std::pair<hwloc_obj_t, int> shared_around(hwloc_obj_t core, int node) const {
    for (const auto type : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
      if (const hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(topology_, type, core)) return {cache, -1};
    }
    return {hwloc_get_ancestor_obj_by_type(topology_, HWLOC_OBJ_PACKAGE, core), node};
  }

  void read_cores() {
    std::map<hwloc_obj_t, int> packages;
    std::map<std::pair<hwloc_obj_t, int>, int> caches;
    // Some virtual machines show CPUs without cores.
    const bool cores_known = hwloc_get_nbobjs_by_type(topology_, HWLOC_OBJ_CORE) > 0;
    each(cores_known ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU, [&](hwloc_obj_t object) {
      Core core;
      core.cpus = numbers_of(object->cpuset);
      if (core.cpus.empty()) return;
      cpus_.insert(cpus_.end(), core.cpus.begin(), core.cpus.end());
      const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology_, HWLOC_OBJ_PACKAGE, object);
      core.package = packages.emplace(package, static_cast<int>(packages.size())).first->second;
      const auto node = node_of_cpu_.find(core.cpus.front());
      core.node = node == node_of_cpu_.end() ? 0 : node->second;
      core.cache =
          caches.emplace(shared_around(object, core.node), static_cast<int>(caches.size())).first->second;
      result_.cores.push_back(std::move(core));
    });
    if (result_.cores.empty()) throw Error("it has no CPU");
    std::sort(cpus_.begin(), cpus_.end());
    result_.packages = static_cast<int>(packages.size());
    for (MemoryNode& node : result_.nodes) node.cpus = common(node.cpus, cpus_);
    std::sort(result_.cores.begin(), result_.cores.end(), [](const Core& a, const Core& b) {
      return std::tie(a.package, a.node, a.cache, a.cpus) < std::tie(b.package, b.node, b.cache, b.cpus);
    });
  }

  void read_distances() {
    hwloc_distances_s* found = nullptr;
    unsigned count = 1;
    if (hwloc_distances_get_by_type(topology_, HWLOC_OBJ_NUMANODE, &count, &found,
                                    HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
        count == 0)
      return;
    if (found->nbobjs == numa_.size()) {
      for (const hwloc_obj_t from : numa_) {
        std::vector<int> row;
        for (const hwloc_obj_t to : numa_) row.push_back(distance(*found, from, to));
        result_.distances.push_back(std::move(row));
      }
    }
    hwloc_distances_release(topology_, found);
  }

  static int distance(hwloc_distances_s& matrix, hwloc_obj_t from, hwloc_obj_t to) {
    const auto place = [&](hwloc_obj_t node) {
      return static_cast<std::size_t>(std::find(matrix.objs, matrix.objs + matrix.nbobjs, node) -
                                      matrix.objs);
    };
    const std::size_t i = place(from);
    const std::size_t j = place(to);
    if (i == matrix.nbobjs || j == matrix.nbobjs) return 0;
    return static_cast<int>(std::min<hwloc_uint64_t>(matrix.values[i * matrix.nbobjs + j], 65535));
  }

  void read_devices() {
    for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_pcidev(topology_, device)) != nullptr;) {
      const PciAttributes& pci = device->attr->pcidev;
      const auto kind = judge_pci_device(pci.class_id, pci.vendor_id, pci.device_id);
      if (!kind) continue;
      PciDevice found{*kind, address_of(pci), {}, bridges_above(device), local_to(device)};
      for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
        if (child->type == HWLOC_OBJ_OS_DEVICE && child->name != nullptr)
          found.names.emplace_back(child->name);
      }
      result_.devices.push_back(std::move(found));
    }
    std::sort(result_.devices.begin(), result_.devices.end(),
              [](const PciDevice& a, const PciDevice& b) { return a.address < b.address; });
  }

  static std::vector<std::string> bridges_above(hwloc_obj_t device) {
    std::vector<std::string> path;
    for (hwloc_obj_t above = device->parent; above != nullptr; above = above->parent) {
      if (above->type == HWLOC_OBJ_BRIDGE && above->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
        path.push_back(address_of(above->attr->bridge.upstream.pci));
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  // hwloc hangs a device whose NUMA node the firmware does not tell (-1) under the whole machine.
  std::vector<int> local_to(hwloc_obj_t device) const {
    const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology_, device);
    std::vector<int> cpus = common(numbers_of(place->complete_cpuset), cpus_);
    const auto nodes = std::count_if(result_.nodes.begin(), result_.nodes.end(),
                                     [](const MemoryNode& node) { return !node.cpus.empty(); });
    if (cpus == cpus_ && nodes > 1) cpus.clear();
    return cpus;
  }

  KeptErrors errors_;
  hwloc_topology_t topology_ = nullptr;
  std::vector<hwloc_obj_t> numa_;   // by the kernel's number, as result_.nodes
  std::map<int, int> node_of_cpu_;  // index into result_.nodes
  std::vector<int> cpus_;           // of all cores, ascending
  Topology result_;
};

[[noreturn]] void refuse(const std::string& source, const std::string& why) {
  throw Error(fmt::format("cannot use the topology {}: {}", printable(source), why), k_hint);
}

// Nodes, cores and devices of what `load` puts into hwloc; a reason behind '-' where it cannot.
template <class Load>
std::string answer(const std::string& source, Load load) {
  try {
    HwlocTopology topology;
    load(topology);
    return "+" + render_topology(topology.read(source));
  } catch (const Error& error) {
    return std::string("-") + error.what();
  }
}

template <class Load>
Topology load_in_child(const std::string& source, const std::string& name, Load load) {
  const ChildAnswer told = call_in_child([&] { return answer(name, load); }, k_load_deadline, k_file_limit);
  if (!told.bytes) refuse(source, fmt::format("hwloc {}", told.problem));
  if (!told.bytes->starts_with('+')) refuse(source, fmt::format("hwloc says: {}", told.bytes->substr(1)));
  return parse_topology(told.bytes->substr(1), name);
}

// "pack:2 core:8": no name of a file has such a look.
bool looks_synthetic(const std::string& source) {
  return source.find(':') != std::string::npos && source.find('/') == std::string::npos;
}

}  // namespace

Topology discover_topology() {
  HwlocTopology hwloc;
  hwloc.load_here();
  Topology topology = hwloc.read(hwloc.version());
  topology.devices = capture_pci_devices();
  const std::vector<int> cpus = all_cpus(topology);
  for (PciDevice& device : topology.devices) {
    device.cpus = common(device.cpus, cpus);
    // On one NUMA node everything is near.
    if (device.cpus.empty() && topology.nodes.size() == 1) device.cpus = cpus;
  }
  return topology;
}

Topology load_topology(const std::string& source) {
  struct stat status {};
  const bool exists = ::stat(source.c_str(), &status) == 0;
  if (!exists && looks_synthetic(source)) {
    return load_in_child(source, source, [&](HwlocTopology& hwloc) { hwloc.load_synthetic(source); });
  }
  if (!exists) refuse(source, to_lower(std::strerror(errno)));
  const std::string text = read_file(source, k_file_limit);
  const std::string_view start = trim(std::string_view(text).substr(0, 100));
  if (start.starts_with('{')) return parse_topology(text, source);
  if (!start.starts_with('<')) refuse(source, "it is neither XML nor JSON");
  const std::string name = source.substr(source.rfind('/') + 1);
  return load_in_child(source, name, [&](HwlocTopology& hwloc) { hwloc.load_xml(text); });
}

}  // namespace ddprun
