#include "os/machine/usable_memory.hpp"

#include <algorithm>

#include "facts/memory_text.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

std::optional<std::uint64_t> usable_memory(const std::string& root) {
  auto least = facts::parse_total_memory(try_read_file(root + "/proc/meminfo").value_or(""));
  const auto group = facts::parse_memory_group(try_read_file(root + "/proc/self/cgroup").value_or(""));
  if (!group) return least;
  const char* const name = group->unified ? "/memory.max" : "/memory.limit_in_bytes";
  const std::string top = "/sys/fs/cgroup";
  for (std::string folder = group->folder; folder.size() >= top.size(); folder.resize(folder.rfind('/'))) {
    const auto limit = facts::parse_memory_limit(try_read_file(root + folder + name).value_or(""));
    if (limit) least = std::min(least.value_or(*limit), *limit);
  }
  return least;
}

}  // namespace ddprun::os
