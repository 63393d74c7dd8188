#include "os/process/process_usage.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

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

Milliseconds from_ticks(std::uint64_t ticks) {
  return Milliseconds{static_cast<std::int64_t>(ticks) * 1000 / ::sysconf(_SC_CLK_TCK)};
}

// Returns the CPU time by the process' own clock, which is exact, while /proc counts in hundredths of a
// second: of many ranks that share a CPU a busy one has not many more in a second.
Milliseconds own_cpu(const ProcessEntry& process) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(process.pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0)
    return from_ticks(process.cpu_ticks);
  return std::chrono::duration_cast<Milliseconds>(std::chrono::seconds{time.tv_sec} +
                                                  std::chrono::nanoseconds{time.tv_nsec});
}

void add(ProcessUsage& usage, const ProcessEntry& process) {
  usage.cpu_time += own_cpu(process) + from_ticks(process.waited_ticks);
  usage.io += read_io(process.pid);
  usage.memory += process.resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Milliseconds read_cpu_wait(int pid) {
  const auto text = try_read_file(fmt::format("/proc/{}/schedstat", pid)).value_or("");
  const auto fields = split(text, ' ');
  const auto waited = fields.size() < 2 ? std::nullopt : parse_integer(fields[1]);
  return std::chrono::duration_cast<Milliseconds>(std::chrono::nanoseconds{waited.value_or(0)});
}

std::vector<std::optional<ProcessUsage>> measure_usage(const std::vector<int>& pids) {
  std::vector<std::optional<ProcessUsage>> usages;
  const ProcessTable table = capture_processes();
  for (const int pid : pids) {
    auto& usage = usages.emplace_back();
    const auto found = std::ranges::find(table, pid, &ProcessEntry::pid);
    if (found == table.end()) continue;
    add(usage.emplace(), *found);
    usage->own_cpu = usage->cpu_time;
    usage->cpu_wait = read_cpu_wait(pid);
    for (const ProcessEntry& below : find_descendants(table, pid)) add(*usage, below);
  }
  return usages;
}

}  // namespace ddprun::os
