#include "os/machine/capture_ancestors.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "facts/proc_text.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

std::vector<facts::Ancestor> capture_ancestors() {
  static constexpr std::size_t k_most = 64;
  std::vector<facts::Ancestor> ancestors;
  if (!sees_own_processes()) return ancestors;
  for (int pid = ::getppid(); pid > 0 && ancestors.size() < k_most;) {
    const std::string folder = fmt::format("/proc/{}", pid);
    const auto stat = try_read_file(folder + "/stat");
    if (!stat) break;
    ancestors.push_back({pid, facts::parse_title(read_head(folder + "/cmdline", 1000))});
    pid = facts::parse_parent_pid(*stat).value_or(0);
  }
  return ancestors;
}

}  // namespace ddprun::os
