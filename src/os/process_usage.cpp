#include "ddprun/os/process_usage.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "ddprun/base/text.hpp"
#include "ddprun/os/process_table.hpp"
#include "ddprun/os/read_file.hpp"

namespace ddprun {

namespace {

// Fields of /proc/PID/stat after the name, counted from the state (proc(5) calls it field 3).
constexpr std::size_t k_user_time = 11, k_last_time = 14, k_resident_pages = 21;

std::optional<ProcessUsage> read_usage(int pid) {
  const auto text = try_read_file(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = text ? text->rfind(") ") : std::string::npos;
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields = split_words(text->substr(name_end + 2));
  if (fields.size() <= k_resident_pages) return std::nullopt;
  const auto number = [&](std::size_t field) { return parse_integer(fields[field]).value_or(0); };
  std::int64_t ticks = 0;
  for (std::size_t field = k_user_time; field <= k_last_time; ++field) ticks += number(field);
  return ProcessUsage{Milliseconds{ticks * 1000 / ::sysconf(_SC_CLK_TCK)},
                      static_cast<std::uint64_t>(number(k_resident_pages) * ::sysconf(_SC_PAGESIZE))};
}

}  // namespace

std::vector<std::optional<ProcessUsage>> measure_usage(const std::vector<int>& pids) {
  std::vector<std::optional<ProcessUsage>> usages;
  const ProcessTable table = capture_processes();
  for (const int pid : pids) {
    const bool there = std::ranges::any_of(table, [&](const ProcessEntry& each) { return each.pid == pid; });
    auto& usage = usages.emplace_back(there ? read_usage(pid) : std::nullopt);
    if (!usage) continue;
    for (const ProcessEntry& below : find_descendants(table, pid)) {
      const ProcessUsage part = read_usage(below.pid).value_or(ProcessUsage{});
      usage->cpu_time += part.cpu_time;
      usage->memory += part.memory;
    }
  }
  return usages;
}

}  // namespace ddprun
