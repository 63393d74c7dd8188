// Memory that a process here may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::os {

// Returns the host's memory, or the least limit of this process' cgroup and those around it; nullopt if
// neither can be read. `root` is in front of every path.
std::optional<std::uint64_t> usable_memory(const std::string& root = {});

// Returns how much of it is free now, or could be had from the page cache.
std::optional<std::uint64_t> free_memory(const std::string& root = {});

// Returns the memory of a process, shared pages by their share; nullopt if it cannot be read.
std::optional<std::uint64_t> memory_of(int pid);

}  // namespace ddprun::os
