#include "os/process/process_usage.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

std::uint64_t read_io(int pid) {
  std::uint64_t bytes = 0;
  for (const std::string& line : split(try_read_file(fmt::format("/proc/{}/io", pid)).value_or(""), '\n')) {
    if (!line.starts_with("rchar: ") && !line.starts_with("wchar: ")) continue;
    bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(parse_integer(line.substr(7)).value_or(0), 0));
  }
  return bytes;
}

void add(ProcessUsage& usage, const ProcessEntry& process) {
  const auto ticks = static_cast<std::int64_t>(process.cpu_ticks);
  usage.cpu_time += Milliseconds{ticks * 1000 / ::sysconf(_SC_CLK_TCK)};
  usage.io += read_io(process.pid);
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
    usage->own_cpu = usage->cpu_time;
    for (const ProcessEntry& below : find_descendants(table, pid)) add(*usage, below);
  }
  return usages;
}

}  // namespace ddprun::os
