// Parsers of the small text files of the kernel and of drivers: processes, memory limits, one GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "facts/binding.hpp"
#include "facts/topology.hpp"

namespace ddprun::facts {

// Parsers of the kernel's small text files, and of its texts about memory limits and processes killed for
// them.

// Parsers of the kernel's small text files.
// Pure: os/machine and os/process read the files and hand over their contents. Contents that are not what the
// kernel writes give nullopt, or an empty result.

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

// Parsers of the kernel's texts about memory limits and processes killed for them.

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

// Parsers of the drivers' text files about one GPU. Pure: os/machine/capture_gpus reads the files.

// /proc/driver/nvidia/gpus/<pci>/information.
struct NvidiaInformation {
  std::optional<int> minor;  // number in /dev/nvidia<minor>
  std::string uuid{};        // "GPU-..."; empty where the driver shows question marks, as some do to users
  std::string model{};       // "NVIDIA A100-SXM4-40GB"
  bool excluded = false;     // kept away from every program by the driver's configuration
};
NvidiaInformation parse_nvidia_information(std::string_view text);

// /sys/class/kfd/kfd/topology/nodes/<n>/properties of a GPU; nothing for a CPU node and for the empty text
// that the kernel shows where the device cgroup forbids the device.
struct KfdGpu {
  std::string pci_address;
  int render_minor = 0;  // number in /dev/dri/renderD<minor>; 0 when the driver gave none
  std::string uuid{};    // spelt as in ROCR_VISIBLE_DEVICES: "GPU-" and unique_id, 16 hexadecimal digits
};
std::optional<KfdGpu> parse_kfd_properties(std::string_view text);

// Parses "0x0bd5\n" of a PCI device's `vendor` and `device` files.
std::optional<std::uint32_t> parse_pci_id(std::string_view text);
// Reports whether it is one of Intel's cards (Max, Flex, Arc); graphics built into processors are not what a
// job is placed on.
bool is_intel_accelerator(std::uint32_t vendor, std::uint32_t device);
// Returns the tiles of such a card: the Max 1550 has two, each a device of its own for Level Zero.
int tiles_of_intel(std::uint32_t device);
std::string gpu_vendor(std::uint32_t vendor);  // "nvidia", "amd", "intel", else empty

// Returns the use of a PCI device of this class ("0302"), vendor and number for a worker: something to
// compute on or to communicate through. nullopt for the graphics of boards (1a03 ASPEED, 102b Matrox) and of
// desktop processors, and for everything else.
std::optional<DeviceKind> judge_pci_device(std::uint32_t of_class, std::uint32_t vendor,
                                           std::uint32_t device);

}  // namespace ddprun::facts
