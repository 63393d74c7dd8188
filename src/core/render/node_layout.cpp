#include "render/node_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::render {

namespace {

constexpr std::size_t k_longest_name = 20;
constexpr std::size_t k_longest_model = 32;
constexpr std::size_t k_holders_told = 4;

using CpuHolders = std::map<int, CpuHolder>;

// Adds a worker; a later one does not replace an earlier one.
void add_worker(CpuHolders& holders, const plan::PlannedWorker& worker) {
  for (const int cpu : worker.binding.cpus) {
    const auto [place, added] = holders.insert({cpu, {CpuHolder::Kind::worker, worker.local_rank.value}});
    if (!added) place->second = {CpuHolder::Kind::several};
  }
}

CpuHolders find_holders(const plan::LaunchPlan& plan, const facts::HostFacts& host) {
  CpuHolders holders;
  for (const plan::PlannedWorker& worker : plan.planned) add_worker(holders, worker);
  for (const int cpu : plan.binding.spare) holders.insert({cpu, {CpuHolder::Kind::spare}});
  for (const int cpu : host.allowed_cpus) holders.insert({cpu, {CpuHolder::Kind::elsewhere}});
  return holders;
}

// Returns the holder of a core. Its threads may have different holders: workers count first, then what is
// free.
CpuHolder holder_of(const facts::Core& core, const CpuHolders& holders) {
  CpuHolder found{CpuHolder::Kind::forbidden};
  for (const int cpu : core.cpus) {
    const auto place = holders.find(cpu);
    if (place == holders.end()) continue;
    const CpuHolder& next = place->second;
    const bool two_workers =
        next.kind == CpuHolder::Kind::worker && found.kind == CpuHolder::Kind::worker && !(next == found);
    if (two_workers) return {CpuHolder::Kind::several};
    if (next.kind < found.kind) found = next;
  }
  return found;
}

PackageBox& package_box(NodeLayout& layout, int number) {
  const auto found =
      std::ranges::find_if(layout.packages, [&](const PackageBox& box) { return box.number == number; });
  if (found != layout.packages.end()) return *found;
  layout.packages.push_back({number, {}, {}});
  return layout.packages.back();
}

NodeBox& node_box(PackageBox& package, const facts::MemoryNode& node) {
  const auto found = std::ranges::find_if(
      package.nodes, [&](const NodeBox& box) { return box.numbers.front() == node.number; });
  if (found != package.nodes.end()) return *found;
  package.nodes.push_back({{node.number}, node.bytes, {}, {}});
  return package.nodes.back();
}

void add_cores(NodeLayout& layout, const facts::Topology& topology, const CpuHolders& holders) {
  const facts::Core* before = nullptr;
  for (const facts::Core& core : topology.cores) {
    NodeBox& box =
        node_box(package_box(layout, core.package), topology.nodes.at(static_cast<std::size_t>(core.node)));
    const bool same_cache = before != nullptr && before->cache == core.cache && !box.groups.empty();
    if (!same_cache) box.groups.emplace_back();
    box.groups.back().push_back({core.cpus, holder_of(core, holders)});
    before = &core;
  }
}

// Returns the package of the nearest cores, if there is one such package.
std::optional<int> nearest_package(const facts::Topology& topology, std::size_t node) {
  if (node >= topology.distances.size()) return std::nullopt;
  const std::vector<int>& distances = topology.distances[node];
  int nearest = -1;
  std::set<int> packages;
  for (const facts::Core& core : topology.cores) {
    const int distance = distances.at(static_cast<std::size_t>(core.node));
    if (nearest >= 0 && distance > nearest) continue;
    if (distance != nearest) packages.clear();
    nearest = distance;
    packages.insert(core.package);
  }
  if (packages.size() != 1) return std::nullopt;
  return *packages.begin();
}

void add_memory(NodeLayout& layout, const facts::Topology& topology) {
  for (std::size_t i = 0; i < topology.nodes.size(); ++i) {
    const facts::MemoryNode& node = topology.nodes[i];
    if (!node.cpus.empty()) continue;
    if (node.bytes == 0) {
      layout.empty_nodes.push_back(node.number);
      continue;
    }
    const std::optional<int> package = nearest_package(topology, i);
    auto& boxes = package ? package_box(layout, *package).nodes : layout.memory;
    const auto alike = std::ranges::find_if(
        boxes, [&](const NodeBox& box) { return box.groups.empty() && box.bytes == node.bytes; });
    if (alike == boxes.end())
      boxes.push_back({{node.number}, node.bytes, {}, {}});
    else
      alike->numbers.push_back(node.number);
  }
}

std::set<int> cpus_of(const NodeBox& box) {
  std::set<int> cpus;
  for (const CoreGroup& group : box.groups) {
    for (const CoreMark& core : group) cpus.insert(core.cpus.begin(), core.cpus.end());
  }
  return cpus;
}

bool holds(const std::set<int>& cpus, const std::vector<int>& some) {
  return std::ranges::all_of(some, [&](int cpu) { return cpus.count(cpu) == 1; });
}

// Returns where a device with these local CPUs is drawn: the smallest box that has them all.
std::vector<DeviceMark>& place_of(NodeLayout& layout, const std::vector<int>& local) {
  if (local.empty()) return layout.devices;
  for (PackageBox& package : layout.packages) {
    std::set<int> all;
    for (NodeBox& box : package.nodes) {
      std::set<int> cpus = cpus_of(box);
      if (holds(cpus, local)) return box.devices;
      all.merge(cpus);
    }
    if (holds(all, local)) return package.devices;
  }
  return layout.devices;
}

const facts::PciDevice* find_device(const facts::Topology& topology, const std::string& address) {
  const auto found = std::ranges::find_if(
      topology.devices, [&](const facts::PciDevice& device) { return device.address == address; });
  return found == topology.devices.end() || address.empty() ? nullptr : &*found;
}

// Returns the holders, or spare ones: a task cannot tell what the others of its host hold, so only its own
// devices are marked.
std::vector<CpuHolder> holders_or_spare(std::vector<CpuHolder> holders, bool any_given,
                                        const plan::LaunchPlan& plan) {
  const bool alone = static_cast<std::size_t>(plan.node->local_world_size) == plan.planned.size();
  if (holders.empty() && any_given && alone) holders.push_back({CpuHolder::Kind::spare});
  if (holders.size() > k_holders_told) holders = {{CpuHolder::Kind::several}};
  return holders;
}

std::string model_name(const facts::Gpu& gpu) {
  std::string_view name = gpu.model;
  for (const std::string_view vendor : {"NVIDIA ", "AMD ", "Intel(R) "}) {
    if (name.starts_with(vendor)) name.remove_prefix(vendor.size());
  }
  return printable(name, k_longest_model);
}

void add_gpus(NodeLayout& layout, const plan::LaunchPlan& plan, const facts::HostFacts& host) {
  const bool any_given = std::ranges::any_of(
      plan.planned, [](const plan::PlannedWorker& worker) { return !worker.gpus.empty(); });
  for (std::size_t i = 0; i < host.gpus.size(); ++i) {
    const facts::Gpu& gpu = host.gpus[i];
    std::vector<CpuHolder> holders;
    for (const plan::PlannedWorker& worker : plan.planned) {
      if (std::ranges::count(worker.gpus, static_cast<int>(i)) > 0)
        holders.push_back({CpuHolder::Kind::worker, worker.local_rank.value});
    }
    const facts::PciDevice* device = find_device(*host.topology, gpu.pci_address);
    const bool told = device != nullptr && !device->cpus.empty();
    std::string label = fmt::format("GPU {}", i);
    if (!gpu.pci_address.empty()) label += " " + printable(gpu.pci_address, k_longest_name);
    place_of(layout, told ? device->cpus : gpu.local_cpus)
        .push_back({facts::DeviceKind::gpu, label, holders_or_spare(holders, any_given, plan),
                    static_cast<int>(i), model_name(gpu)});
  }
}

void add_cards(NodeLayout& layout, const plan::LaunchPlan& plan, const facts::Topology& topology) {
  const bool any_given =
      std::ranges::any_of(plan.planned, [](const auto& worker) { return !worker.network_card.empty(); });
  int number = static_cast<int>(devices_of(layout).size()) - 1;
  for (const facts::PciDevice& device : topology.devices) {
    if (device.kind != facts::DeviceKind::network) continue;
    ++number;
    std::vector<CpuHolder> holders;
    for (const plan::PlannedWorker& worker : plan.planned) {
      if (std::ranges::count(device.names, worker.network_card) == 0) continue;
      holders.push_back({CpuHolder::Kind::worker, worker.local_rank.value});
      for (const int gpu : worker.gpus) layout.pairs.push_back({gpu, number, worker.local_rank.value});
    }
    std::string name =
        printable(device.names.empty() ? device.address : join(device.names, "/"), k_longest_name);
    const bool down = device.link == facts::CardLink::down;
    if (down) name += " (down)";
    if (!down) holders = holders_or_spare(holders, any_given, plan);
    place_of(layout, device.cpus).push_back({facts::DeviceKind::network, name, holders, number, {}});
  }
}

int find_sibling_distance(const facts::Topology& topology) {
  std::set<int> distances;
  for (const facts::Core& core : topology.cores)
    distances.insert(core.cpus.size() == 2 ? core.cpus[1] - core.cpus[0] : 0);
  return distances.size() == 1 ? *distances.begin() : 0;
}

}  // namespace

NodeLayout make_node_layout(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot) {
  const facts::Topology& topology = snapshot.host.topology.value();
  NodeLayout layout;
  layout.sibling_distance = find_sibling_distance(topology);
  add_cores(layout, topology, find_holders(plan, snapshot.host));
  add_memory(layout, topology);
  add_gpus(layout, plan, snapshot.host);
  add_cards(layout, plan, topology);
  return layout;
}

std::vector<const NodeBox*> boxes_of(const NodeLayout& layout) {
  std::vector<const NodeBox*> boxes;
  for (const PackageBox& package : layout.packages) {
    for (const NodeBox& box : package.nodes) boxes.push_back(&box);
  }
  for (const NodeBox& box : layout.memory) boxes.push_back(&box);
  return boxes;
}

std::vector<const DeviceMark*> devices_of(const NodeLayout& layout) {
  std::vector<const DeviceMark*> devices;
  const auto add = [&](const std::vector<DeviceMark>& marks) {
    for (const DeviceMark& mark : marks) devices.push_back(&mark);
  };
  add(layout.devices);
  for (const PackageBox& package : layout.packages) add(package.devices);
  for (const NodeBox* box : boxes_of(layout)) add(box->devices);
  return devices;
}

namespace {

std::vector<CoreGroup> joined_where_single(const std::vector<CoreGroup>& groups) {
  const auto single = [](const CoreGroup& group) { return group.size() == 1; };
  if (!std::ranges::all_of(groups, single)) return groups;
  CoreGroup all;
  for (const CoreGroup& group : groups) all.push_back(group.front());
  return {all};
}

std::size_t parts(std::size_t count, std::size_t most) { return (count + most - 1) / most; }

void add_cut(std::vector<CoreLine>& lines, const CoreGroup& group, std::size_t columns) {
  const std::size_t size = parts(group.size(), parts(group.size(), columns));
  for (std::size_t begin = 0; begin < group.size(); begin += size) {
    const auto from = group.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::size_t count = std::min(size, group.size() - begin);
    lines.push_back({CoreGroup(from, from + static_cast<std::ptrdiff_t>(count))});
  }
}

}  // namespace

std::vector<CoreLine> arrange(const std::vector<CoreGroup>& groups, std::size_t columns) {
  if (groups.empty()) return {};
  const std::vector<CoreGroup> joined = joined_where_single(groups);
  std::size_t widest = 1;
  for (const CoreGroup& group : joined) widest = std::max(widest, group.size());
  std::vector<CoreLine> lines;
  if (widest > columns) {
    for (const CoreGroup& group : joined) add_cut(lines, group, columns);
    return lines;
  }
  const std::size_t fitting = (columns + 1) / (widest + 1);
  const std::size_t in_line = parts(joined.size(), parts(joined.size(), fitting));
  for (std::size_t i = 0; i < joined.size(); ++i) {
    if (i % in_line == 0) lines.emplace_back();
    lines.back().push_back(joined[i]);
  }
  return lines;
}

}  // namespace ddprun::render
