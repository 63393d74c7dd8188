#include "os/machine/usable_memory.hpp"

#include <algorithm>
#include <functional>

#include "facts/memory_text.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

std::string text_of(const std::string& path) { return try_read_file(path).value_or(""); }

// Returns the least of what /proc/meminfo says under this name and what each cgroup around this process
// allows; `used` is taken off a cgroup's limit.
std::optional<std::uint64_t> least_memory(
    const std::string& root, std::string_view name,
    const std::function<std::uint64_t(const std::string&, bool)>& used) {
  auto least = facts::parse_kibibytes(text_of(root + "/proc/meminfo"), name);
  const auto group = facts::parse_memory_group(text_of(root + "/proc/self/cgroup"));
  if (!group) return least;
  const std::string top = "/sys/fs/cgroup";
  for (std::string folder = group->folder; folder.size() >= top.size(); folder.resize(folder.rfind('/'))) {
    const char* const limit_file = group->unified ? "/memory.max" : "/memory.limit_in_bytes";
    const auto limit = facts::parse_memory_limit(text_of(root + folder + limit_file));
    if (!limit) continue;
    const std::uint64_t left = *limit - std::min(*limit, used(root + folder, group->unified));
    least = std::min(least.value_or(left), left);
  }
  return least;
}

// Returns the memory in use, without what the page cache holds and would give back.
std::uint64_t used_in(const std::string& folder, bool unified) {
  const std::string file = folder + (unified ? "/memory.current" : "/memory.usage_in_bytes");
  const std::uint64_t used = facts::parse_memory_limit(text_of(file)).value_or(0);
  return used - std::min(used, facts::parse_inactive_file(text_of(folder + "/memory.stat")));
}

}  // namespace

std::optional<std::uint64_t> usable_memory(const std::string& root) {
  return least_memory(root, "MemTotal:", [](const std::string&, bool) { return std::uint64_t{0}; });
}

std::optional<std::uint64_t> free_memory(const std::string& root) {
  return least_memory(root, "MemAvailable:", used_in);
}

std::optional<std::uint64_t> memory_of(int pid) {
  return facts::parse_kibibytes(text_of("/proc/" + std::to_string(pid) + "/smaps_rollup"), "Pss:");
}

}  // namespace ddprun::os
