#include "os/machine/capture_processors.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "os/process/bind_self.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

std::optional<double> tighter(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// Asks `read_quota` for each folder from mount + path up to the mount itself. A path that leads out of the
// mount ("/../x", as seen from inside a control-group namespace) stands for the mount.
template <class ReadQuota>
std::optional<double> tightest_upwards(const std::string& mount, std::string path, ReadQuota read_quota) {
  if (path.find("..") != std::string::npos) path.clear();
  while (path.ends_with('/')) path.pop_back();
  std::optional<double> quota = read_quota(mount + path);
  while (!path.empty()) {
    path.resize(std::min(path.rfind('/'), path.size() - 1));
    quota = tighter(quota, read_quota(mount + path));
  }
  return quota;
}

std::optional<double> read_unified_quota(const std::string& folder) {
  const auto text = try_read_file(folder + "/cpu.max");
  return text ? facts::parse_cpu_max(*text) : std::nullopt;
}

std::optional<double> read_cfs_quota(const std::string& folder) {
  const auto quota = try_read_file(folder + "/cpu.cfs_quota_us");
  const auto period = try_read_file(folder + "/cpu.cfs_period_us");
  return quota && period ? facts::parse_cfs_quota(*quota, *period) : std::nullopt;
}

}  // namespace

std::vector<int> capture_allowed_cpus() { return read_affinity(0); }

std::vector<std::vector<int>> capture_cores(const std::vector<int>& cpus, const std::string& root) {
  const std::string folder = root + "/sys/devices/system/cpu";
  const auto active = try_read_file(folder + "/smt/active");
  const bool single = active && trim(*active) == "0";
  std::vector<std::vector<int>> cores;
  std::map<int, std::size_t> core_of;  // indexed by CPU; has the siblings of those looked at
  for (const int cpu : cpus) {
    if (const auto known = core_of.find(cpu); known != core_of.end()) {
      cores[known->second].push_back(cpu);
      continue;
    }
    const std::string path = fmt::format("{}/cpu{}/topology/thread_siblings_list", folder, cpu);
    const auto text = single ? std::nullopt : try_read_file(path);
    const auto siblings = text ? facts::parse_cpu_list(*text) : std::nullopt;
    for (const int sibling : siblings.value_or(std::vector<int>{})) core_of.emplace(sibling, cores.size());
    cores.push_back({cpu});
  }
  return cores;
}

std::vector<std::vector<int>> capture_core_kinds(const std::string& root) {
  const std::string devices = root + "/sys/devices";
  std::vector<std::vector<int>> kinds;
  for (const char* name : {"cpu_core", "cpu_atom", "cpu_lowpower"}) {
    const auto text = try_read_file(devices + "/" + name + "/cpus");
    auto cpus = text ? facts::parse_cpu_list(*text) : std::nullopt;
    if (cpus && !cpus->empty()) kinds.push_back(std::move(*cpus));
  }
  if (!kinds.empty()) return kinds;
  std::map<std::int64_t, std::vector<int>, std::greater<>> by_capacity;
  for (int cpu = 0; cpu <= facts::k_highest_cpu; ++cpu) {
    const auto text = try_read_file(fmt::format("{}/system/cpu/cpu{}/cpu_capacity", devices, cpu));
    const auto capacity = text ? parse_integer(trim(*text)) : std::nullopt;
    if (!capacity) break;
    by_capacity[*capacity].push_back(cpu);
  }
  for (auto& [capacity, cpus] : by_capacity) kinds.push_back(std::move(cpus));
  return kinds;
}

int capture_core_count(const std::vector<int>& cpus, const std::string& root) {
  return static_cast<int>(capture_cores(cpus, root).size());
}

int capture_online_cpus(const std::string& root) {
  const auto text = try_read_file(root + "/sys/devices/system/cpu/online");
  const auto cpus = text ? facts::parse_cpu_list(*text) : std::nullopt;
  if (cpus && !cpus->empty()) return static_cast<int>(cpus->size());
  return static_cast<int>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
}

std::optional<double> capture_cpu_quota(const facts::CgroupPaths& cgroups, const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::optional<double> quota;
  if (cgroups.unified) quota = tightest_upwards(mount, *cgroups.unified, read_unified_quota);
  if (cgroups.cpu) {
    const std::string hierarchy = mount + "/" + cgroups.cpu_controllers;
    quota = tighter(quota, tightest_upwards(hierarchy, *cgroups.cpu, read_cfs_quota));
  }
  return quota;
}

namespace {

constexpr std::size_t k_first_mapping = 4096;  // the whole of numa_maps is long, and costly to write

}  // namespace

bool keep_to_cpus(const std::vector<int>& cpus) {
  const BindingRefusal refusal = bind_self(prepare_binding({cpus, {}, facts::MemoryPolicy::untouched}, {}));
  return !cpus.empty() && refusal.cpus == 0;
}

std::vector<int> read_affinity(int pid) {
  std::vector<int> cpus;
  // The kernel refuses a mask smaller than its own with EINVAL, so the mask grows until it fits.
  for (std::size_t count = 1024; count <= std::size_t{facts::k_highest_cpu} + 1; count *= 2) {
    std::vector<cpu_set_t> mask(CPU_ALLOC_SIZE(count) / sizeof(cpu_set_t));
    const std::size_t size = mask.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(pid, size, mask.data()) != 0) {
      if (errno == EINVAL) continue;
      return cpus;
    }
    for (std::size_t cpu = 0; cpu < count; ++cpu) {
      if (CPU_ISSET_S(cpu, size, mask.data())) cpus.push_back(static_cast<int>(cpu));
    }
    return cpus;
  }
  return cpus;
}

std::optional<facts::Binding> read_binding(int pid) {
  // Looked at first: what has ended has no mappings, but keeps its mask until it is reaped.
  const std::string mappings =
      sees_own_processes() ? read_head(fmt::format("/proc/{}/numa_maps", pid), k_first_mapping) : "";
  std::vector<int> cpus = read_affinity(pid);
  if (cpus.empty()) return std::nullopt;
  facts::Binding binding = facts::parse_numa_maps(mappings).value_or(facts::Binding{});
  binding.cpus = std::move(cpus);
  return binding;
}

namespace {

std::string text_of(const std::string& path) { return try_read_file(path).value_or(""); }

// Returns the least of what /proc/meminfo says under this name and what each cgroup around this process
// allows; `used` is taken off a cgroup's limit.
std::optional<std::uint64_t> least_memory(
    const std::string& root, std::string_view name,
    const std::function<std::uint64_t(const std::string&, bool)>& used) {
  auto least = facts::parse_kibibytes(text_of(root + "/proc/meminfo"), name);
  const auto group = facts::parse_memory_group(text_of(root + "/proc/self/cgroup"));
  if (!group) return least;
  const std::string top = "/sys/fs/cgroup";
  for (std::string folder = group->folder; folder.size() >= top.size(); folder.resize(folder.rfind('/'))) {
    const char* const limit_file = group->unified ? "/memory.max" : "/memory.limit_in_bytes";
    const auto limit = facts::parse_memory_limit(text_of(root + folder + limit_file));
    if (!limit) continue;
    const std::uint64_t left = *limit - std::min(*limit, used(root + folder, group->unified));
    least = std::min(least.value_or(left), left);
  }
  return least;
}

// Returns the memory in use, without what the page cache holds and would give back.
std::uint64_t used_in(const std::string& folder, bool unified) {
  const std::string file = folder + (unified ? "/memory.current" : "/memory.usage_in_bytes");
  const std::uint64_t used = facts::parse_memory_limit(text_of(file)).value_or(0);
  return used - std::min(used, facts::parse_inactive_file(text_of(folder + "/memory.stat")));
}

}  // namespace

std::optional<std::uint64_t> usable_memory(const std::string& root) {
  return least_memory(root, "MemTotal:", [](const std::string&, bool) { return std::uint64_t{0}; });
}

std::optional<std::uint64_t> free_memory(const std::string& root) {
  return least_memory(root, "MemAvailable:", used_in);
}

std::optional<std::uint64_t> memory_of(int pid) {
  return facts::parse_kibibytes(text_of("/proc/" + std::to_string(pid) + "/smaps_rollup"), "Pss:");
}

}  // namespace ddprun::os
