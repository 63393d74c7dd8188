// CPUs of this machine, and CPUs and memory that a process here may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "facts/binding.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::os {

// CPUs of this machine and those that this process may use.

// CPUs on which ddprun itself runs, and those of a process it started, as the kernel shows them.

// Moves the calling thread to these CPUs; false where the kernel refuses, which changes nothing.
bool keep_to_cpus(const std::vector<int>& cpus);

// Reads the affinity mask of a process' first thread (0: of the calling thread), ascending, for machines of
// any size; empty when there is no such process or the kernel refuses.
std::vector<int> read_affinity(int pid);

// Reads back the binding of a running process of ours: sched_getaffinity(2) and the policy that
// /proc/<pid>/numa_maps shows. nullopt once it has ended; the policy is untouched if the kernel shows none.
std::optional<facts::Binding> read_binding(int pid);

// Returns the affinity mask of the calling thread, ascending, for machines of any size; empty when the kernel
// refuses.
std::vector<int> capture_allowed_cpus();

// Returns the cores that `cpus` are on, each with those of its SMT siblings that are among them, in the order
// of their first CPUs. `root` stands in front of /sys (for tests).
std::vector<std::vector<int>> capture_cores(const std::vector<int>& cpus, const std::string& root = "");

// Returns the CPUs of each kind of core, fastest first, as the kernel sorts them: Intel's hybrid processors
// by its names, others by the capacity in their firmware. Empty: no source, so all are alike.
std::vector<std::vector<int>> capture_core_kinds(const std::string& root = "");

// Returns their number.
int capture_core_count(const std::vector<int>& cpus, const std::string& root = "");

// Returns the number of CPUs of the whole host.
int capture_online_cpus(const std::string& root = "");

// Returns the tightest CPU quota between the control group and the top of its hierarchy, in CPUs; version 2
// and 1.
std::optional<double> capture_cpu_quota(const facts::CgroupPaths& cgroups, const std::string& root = "");

// Memory that a process here may use.

// Returns the host's memory, or the least limit of this process' cgroup and those around it; nullopt if
// neither can be read. `root` is in front of every path.
std::optional<std::uint64_t> usable_memory(const std::string& root = {});

// Returns how much of it is free now, or could be had from the page cache.
std::optional<std::uint64_t> free_memory(const std::string& root = {});

// Returns the memory of a process, shared pages by their share; nullopt if it cannot be read.
std::optional<std::uint64_t> memory_of(int pid);

}  // namespace ddprun::os
