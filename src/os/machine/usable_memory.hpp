// How much memory a process here may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::os {

// The host's memory, or the least limit of this process' cgroup and those around it; nothing where neither
// can be read. `root` is in front of every path.
std::optional<std::uint64_t> usable_memory(const std::string& root = {});

}  // namespace ddprun::os
