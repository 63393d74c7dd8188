// --version. CMake defines DDPRUN_COMMIT, DDPRUN_COMPILER, DDPRUN_PROCESSOR and DDPRUN_BUILD_TYPE for this
// file alone.
#include "command_line/version.hpp"
#include "version_number.hpp"

#include <features.h>
#include <fmt/format.h>

namespace ddprun::command_line {

std::string render_version(const std::vector<os::OptionalLibrary>& libraries, const std::string& hwloc) {
  const std::string commit = DDPRUN_COMMIT;
  std::string text = fmt::format("ddprun {}{}\n", DDPRUN_VERSION, commit.empty() ? "" : ", commit " + commit);
  text += fmt::format("built for {} with glibc {}.{} by {} ({})\n", DDPRUN_PROCESSOR, __GLIBC__,
                      __GLIBC_MINOR__, DDPRUN_COMPILER, DDPRUN_BUILD_TYPE);
  text += fmt::format("{:<10}{}, built in\n", "hwloc", hwloc);
  for (const os::OptionalLibrary& library : libraries) {
    text += fmt::format("{:<10}{}\n", library.name, library.file.empty() ? "not found" : library.file);
  }
  return text;
}

}  // namespace ddprun::command_line
