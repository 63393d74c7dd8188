#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "allocation/hostlist.hpp"
#include "base/text.hpp"
#include "check/finding.hpp"
#include "facts/memory_text.hpp"

namespace ddprun::check {

namespace {

constexpr std::size_t k_values_shown = 4;

using HostsByValue = std::map<std::string, std::vector<std::string>>;

// Property that has to be equal on all nodes, whether the job fails if it is not, and the remedy.
struct Alike {
  std::string name;
  Mark mark;
  const char* fix;
};

const Alike k_versions[] = {
    {"ddprun", Mark::error, "install one version on all nodes, or start the one of a shared folder"},
    {"Python", Mark::error, "use one Python environment on all nodes (a shared folder, or the same module)"},
    {"torch", Mark::error,
     "use one Python environment on all nodes: workers of different torch versions can wait for each other "
     "forever"},
    {"NCCL", Mark::error, "use one Python environment on all nodes"},
    {"NVIDIA driver", Mark::warning, "ask the site for nodes with one driver"},
    {"CPU", Mark::warning,
     "ask the scheduler for nodes of one kind (--constraint): the slowest sets the pace"},
    {"kernel", Mark::warning, "report it to the site if a problem occurs on some of these nodes only"},
};

// Sorts the fewest first: they are what a reader looks for.
std::vector<std::pair<std::string, std::vector<std::string>>> by_rarity(const HostsByValue& groups) {
  std::vector<std::pair<std::string, std::vector<std::string>>> sorted(groups.begin(), groups.end());
  std::ranges::stable_sort(
      sorted, [](const auto& one, const auto& other) { return one.second.size() < other.second.size(); });
  return sorted;
}

void report_unlike(const std::vector<HostRecord>& records, const HostsByValue& groups, const Alike& rule,
                   std::vector<Finding>& findings) {
  if (groups.size() < 2) return;
  const auto sorted = by_rarity(groups);
  std::vector<std::string> parts;
  for (const auto& [value, hosts] : sorted) {
    if (parts.size() == k_values_shown) break;
    parts.push_back(fmt::format("{} on {}", value.empty() ? "none" : printable(value, 80),
                                printable(allocation::compress_hostlist(hosts), 120)));
  }
  if (sorted.size() > parts.size()) parts.push_back(fmt::format("{} more", sorted.size() - parts.size()));
  // If two halves differ, neither is the odd one.
  const bool halves = sorted.front().second.size() == sorted.back().second.size();
  std::vector<std::string> odd = halves ? std::vector<std::string>() : sorted.front().second;
  for (const HostRecord& record : records) {
    if (halves) odd.push_back(record.host);
  }
  findings.push_back({rule.mark, rule.name, odd,
                      fmt::format("the nodes differ in {}: {}", rule.name, join(parts, ", ")), rule.fix});
}

template <class Value>
HostsByValue group(const std::vector<HostRecord>& records, Value value) {
  HostsByValue groups;
  for (const HostRecord& record : records) groups[value(record)].push_back(record.host);
  return groups;
}

std::string version_of(const HostRecord& record, const std::string& name) {
  const auto found = record.versions.find(name);
  return found == record.versions.end() ? std::string() : found->second;
}

std::string list_gpus(const HostRecord& record) {
  if (record.gpus.empty()) return fmt::format("{}", record.visible_gpus);
  std::map<std::string, int> models;
  for (const GpuHealth& gpu : record.gpus) ++models[gpu.model];
  std::vector<std::string> parts;
  for (const auto& [model, count] : models) parts.push_back(fmt::format("{} {}", count, model));
  return join(parts, " and ");
}

// Rounds to the nearest 8 GiB: firmware and kernels reserve a little more on one node than on its neighbour.
std::string describe_memory(const HostRecord& record) {
  constexpr std::uint64_t k_step = std::uint64_t{8} << 30;
  return record.memory < k_step ? std::string("less than 8 GiB")
                                : facts::describe_bytes((record.memory + k_step / 2) / k_step * k_step);
}

}  // namespace

void judge_likeness(const std::vector<HostRecord>& records, std::vector<Finding>& findings) {
  if (records.size() < 2) return;
  for (const Alike& rule : k_versions)
    report_unlike(records,
                  group(records, [&](const HostRecord& each) { return version_of(each, rule.name); }), rule,
                  findings);
  report_unlike(records, group(records, [](const HostRecord& each) { return fmt::format("{}", each.mtu); }),
                {"MTU", Mark::warning, "give all interfaces of this network one MTU (ip link set mtu)"},
                findings);
  report_unlike(records, group(records, list_gpus),
                {"GPUs", Mark::error, "ask the scheduler for nodes of one kind, or leave the odd ones out"},
                findings);
  report_unlike(records, group(records, [](const HostRecord& each) { return fmt::format("{}", each.cpus); }),
                {"CPUs", Mark::warning, "ask for the same number on every node (--exclusive, ncpus)"},
                findings);
  report_unlike(records, group(records, describe_memory),
                {"memory", Mark::warning, "ask for the same amount on every node (--mem, mem=)"}, findings);
}

}  // namespace ddprun::check
