// Parsers of the kernel's small text files.
// Pure: os/machine and os/process read the files and hand over their contents. Contents that are not what the
// kernel writes give nullopt, or an empty result.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "facts/binding.hpp"

namespace ddprun::facts {

// No CPU number is above this; keeps a hostile "0-4000000000" small.
inline constexpr int k_highest_cpu = 65535;

// Parses "0-3,8,10-11" (sysfs cpulist, cpuset files); ascending, each once; "" is the empty list.
std::optional<std::vector<int>> parse_cpu_list(std::string_view text);
// Returns the shortest list of ascending numbers: "0-3,8,10-11".
std::string render_cpu_list(const std::vector<int>& cpus);

// Parses the memory policy in the first line of /proc/<pid>/numa_maps: "5625056ec000 prefer:0 file=...".
// Without CPUs. Other policies than ours ("default", "local", "interleave:0-1") are untouched.
std::optional<Binding> parse_numa_maps(std::string_view head);

// Parses Mems_allowed_list of /proc/self/status: the NUMA nodes whose memory may be used, ascending.
std::optional<std::vector<int>> parse_allowed_memory_nodes(std::string_view status);

// Parses TracerPid of /proc/<pid>/status; 0: not traced.
std::optional<int> parse_tracer_pid(std::string_view status);

// Reports whether one of the signal masks of /proc/<pid>/status has the signal: "SigCgt:" (handled),
// "SigBlk:", "SigIgn:".
bool has_signal(std::string_view status, std::string_view mask, int signal);

// Parses cgroup v2 cpu.max ("150000 100000" is 1.5 CPUs); nullopt for "max" as well.
std::optional<double> parse_cpu_max(std::string_view text);
// Parses cgroup v1 cpu.cfs_quota_us and cpu.cfs_period_us; nullopt for the quota -1 (no limit) as well.
std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period);

// /proc/self/cgroup.
struct CgroupPaths {
  std::optional<std::string> unified;  // v2: "/system.slice/slurmstepd.scope/job_29/step_0"
  std::optional<std::string> cpu;      // v1 hierarchy that has the cpu controller
  std::string cpu_controllers;         // name under /sys/fs/cgroup: "cpu" or "cpu,cpuacct"
  friend bool operator==(const CgroupPaths&, const CgroupPaths&) = default;
};
CgroupPaths parse_cgroups(std::string_view text);

// Parses "32768\t60999" (ip_local_port_range).
std::optional<std::pair<int, int>> parse_port_range(std::string_view text);

// Parses the parent's pid from /proc/<pid>/stat; the name in it may hold blanks and parentheses.
std::optional<int> parse_parent_pid(std::string_view stat);
// Returns /proc/<pid>/cmdline as one line: words joined by blanks, at most 1000 bytes. slurmstepd writes its
// title over its arguments.
std::string parse_title(std::string_view cmdline);

}  // namespace ddprun::facts
