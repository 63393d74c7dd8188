#include "os/process/process_usage.hpp"

#include <unistd.h>

#include <algorithm>

#include "os/process/process_table.hpp"

namespace ddprun::os {

namespace {

void add(ProcessUsage& usage, const ProcessEntry& process) {
  const auto ticks = static_cast<std::int64_t>(process.cpu_ticks);
  usage.cpu_time += Milliseconds{ticks * 1000 / ::sysconf(_SC_CLK_TCK)};
  usage.memory += process.resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::vector<std::optional<ProcessUsage>> measure_usage(const std::vector<int>& pids) {
  std::vector<std::optional<ProcessUsage>> usages;
  const ProcessTable table = capture_processes();
  for (const int pid : pids) {
    auto& usage = usages.emplace_back();
    const auto found = std::ranges::find(table, pid, &ProcessEntry::pid);
    if (found == table.end()) continue;
    add(usage.emplace(), *found);
    for (const ProcessEntry& below : find_descendants(table, pid)) add(*usage, below);
  }
  return usages;
}

}  // namespace ddprun::os
