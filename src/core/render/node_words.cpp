#include "render/node_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/text.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::render {

namespace {

constexpr std::string_view k_digits = "0123456789abcdefghijklmnopqrstuvwxyz";

std::set<CpuHolder::Kind> kinds_of(const NodeLayout& layout) {
  std::set<CpuHolder::Kind> kinds;
  for (const DeviceMark* device : devices_of(layout)) {
    for (const CpuHolder& holder : device->holders) kinds.insert(holder.kind);
  }
  for (const NodeBox* box : boxes_of(layout)) {
    for (const CoreGroup& group : box->groups) {
      for (const CoreMark& core : group) kinds.insert(core.holder.kind);
    }
  }
  return kinds;
}

int allowed_cores(const NodeLayout& layout) {
  const auto allowed = [](const CoreMark& core) { return core.holder.kind != CpuHolder::Kind::forbidden; };
  std::ptrdiff_t count = 0;
  for (const NodeBox* box : boxes_of(layout)) {
    for (const CoreGroup& group : box->groups) count += std::ranges::count_if(group, allowed);
  }
  return static_cast<int>(count);
}

std::string threads_text(const NodeLayout& layout, const facts::Topology& topology) {
  std::size_t least = SIZE_MAX;
  std::size_t most = 1;
  for (const facts::Core& core : topology.cores) {
    least = std::min(least, core.cpus.size());
    most = std::max(most, core.cpus.size());
  }
  if (most == 1) return "";
  if (least != most) return fmt::format(" of up to {} threads", most);
  const std::string siblings =
      layout.sibling_distance > 0 ? fmt::format(" (CPU n and n+{})", layout.sibling_distance) : "";
  return fmt::format(" of {} threads{}", most, siblings);
}

}  // namespace

const HolderLook& look_of(CpuHolder::Kind kind) {
  static constexpr std::array<HolderLook, 5> k_looks{
      {{'\0', "held", "", ""},
       {'#', "several", "several workers", "several workers"},
       {'.', "spare", "no worker", "no worker"},
       {'+', "elsewhere", "open to every worker", "not given to one of these workers"},
       {'-', "forbidden", "not allowed here", "not allowed"}}};
  return k_looks.at(static_cast<std::size_t>(kind));
}

char symbol_of(const CpuHolder& holder) {
  if (holder.kind != CpuHolder::Kind::worker) return look_of(holder.kind).symbol;
  return k_digits[static_cast<std::size_t>(holder.local_rank) % k_digits.size()];
}

std::string mark_of(const CpuHolder& holder, bool numbers) {
  const bool worker = holder.kind == CpuHolder::Kind::worker;
  return worker && numbers ? std::to_string(holder.local_rank) : std::string(1, symbol_of(holder));
}

bool needs_numbers(const plan::LaunchPlan& plan) {
  return std::ranges::any_of(plan.planned, [](const plan::PlannedWorker& worker) {
    return worker.local_rank.value >= static_cast<int>(k_digits.size());
  });
}

std::string box_name(const NodeBox& box) {
  return fmt::format("node{} {}", box.numbers.size() == 1 ? "" : "s", facts::render_cpu_list(box.numbers));
}

std::vector<SymbolMeaning> meanings_of(const NodeLayout& layout, const plan::LaunchPlan& plan) {
  std::vector<SymbolMeaning> meanings;
  for (const CpuHolder::Kind kind : kinds_of(layout)) {
    if (kind == CpuHolder::Kind::worker) continue;
    const bool others = kind == CpuHolder::Kind::elsewhere && any_bound(plan);
    meanings.push_back({{kind}, others ? "left to other tasks" : look_of(kind).meaning});
  }
  return meanings;
}

std::string describe_node(const NodeLayout& layout, const facts::HostFacts& host) {
  const facts::Topology& topology = host.topology.value();
  const auto nodes =
      std::ranges::count_if(topology.nodes, [](const facts::MemoryNode& node) { return !node.cpus.empty(); });
  const int cores = static_cast<int>(topology.cores.size());
  const int allowed = allowed_cores(layout);
  return fmt::format("{}, {}, {}{}{}; from {}", count_of(topology.packages, "package"),
                     count_of(nodes, "NUMA node"), count_of(cores, "core"), threads_text(layout, topology),
                     allowed == cores ? "" : fmt::format(", {} allowed", allowed),
                     printable(topology.source, 60));
}

std::string device_text(const DeviceMark& device, bool numbers) {
  if (device.holders.empty()) return device.label;
  std::vector<std::string> marks;
  for (const CpuHolder& holder : device.holders) marks.push_back(mark_of(holder, numbers));
  return fmt::format("[{}] {}", join(marks, numbers ? "," : ""), device.label);
}

std::string core_list(const NodeLayout& layout, const NodeBox& box) {
  std::set<int> cpus;
  for (const CoreGroup& group : box.groups) {
    for (const CoreMark& core : group) {
      const bool first_alone = layout.sibling_distance > 1;
      cpus.insert(core.cpus.begin(), first_alone ? core.cpus.begin() + 1 : core.cpus.end());
    }
  }
  return facts::render_cpu_list({cpus.begin(), cpus.end()});
}

std::string empty_nodes_text(const NodeLayout& layout) {
  return count_of(static_cast<std::int64_t>(layout.empty_nodes.size()), "NUMA node") +
         " without CPUs or memory";
}

bool any_bound(const plan::LaunchPlan& plan) {
  return std::ranges::any_of(plan.planned,
                             [](const plan::PlannedWorker& worker) { return !worker.binding.cpus.empty(); });
}

std::string describe_memory(const facts::Binding& binding) {
  if (binding.policy == facts::MemoryPolicy::untouched) return "";
  return fmt::format("{} {}, {}", binding.memory_nodes.size() == 1 ? "node" : "nodes",
                     facts::render_cpu_list(binding.memory_nodes),
                     binding.policy == facts::MemoryPolicy::preferred ? "preferred" : "no other");
}

std::string describe_bytes(std::int64_t bytes) {
  constexpr double k_mebi = 1024.0 * 1024.0;
  const double mebi = static_cast<double>(bytes) / k_mebi;
  return mebi < 1024 ? fmt::format("{:.0f} MiB", mebi) : fmt::format("{:.0f} GiB", mebi / 1024);
}

std::string gpu_name(const facts::HostFacts& host, int gpu) {
  const std::string& address = host.gpus.at(static_cast<std::size_t>(gpu)).pci_address;
  return address.empty() ? fmt::format("GPU {}", gpu) : printable(address, 20);
}

}  // namespace ddprun::render
