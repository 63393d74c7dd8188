// Parsers of the kernel's texts about memory limits and processes killed for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::facts {

// Control group that accounts for a process' memory: a folder under /sys/fs/cgroup, and its kind of files.
struct MemoryGroup {
  std::string folder;  // "/sys/fs/cgroup/memory/slurm/uid_0/job_7"
  bool unified =
      false;  // cgroup v2: memory.events and memory.max, else memory.oom_control and limit_in_bytes
  friend bool operator==(const MemoryGroup&, const MemoryGroup&) = default;
};
// Parses /proc/PID/cgroup. Version 1 counts if both have a memory controller.
std::optional<MemoryGroup> parse_memory_group(std::string_view proc_cgroup);

// Parses "oom_kill" of memory.events or memory.oom_control.
std::optional<std::int64_t> parse_oom_kills(std::string_view text);

// Returns "4.0 GiB", "512 MiB".
std::string describe_bytes(std::uint64_t bytes);
// Parses memory.max or memory.limit_in_bytes; nullopt if there is no limit.
std::optional<std::uint64_t> parse_memory_limit(std::string_view text);
// Parses a line of a file like /proc/meminfo or /proc/PID/smaps_rollup, in bytes: "MemTotal:",
// "MemAvailable:", "Pss:".
std::optional<std::uint64_t> parse_kibibytes(std::string_view text, std::string_view name);
// Parses "inactive_file" of memory.stat.
std::uint64_t parse_inactive_file(std::string_view memory_stat);
// Describes the limit in memory.max or memory.limit_in_bytes; empty if there is none.
std::string describe_memory_limit(std::string_view text);

// Reports whether a record of the kernel log says that the OOM killer killed this process.
bool tells_oom_kill(std::string_view kernel_log_record, int pid);

}  // namespace ddprun::facts
