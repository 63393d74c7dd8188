#include "ddprun/os/temp_dir.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"

namespace ddprun {

TempDir::TempDir(const std::optional<std::string>& preferred) : owner_(::getpid()) {
  std::vector<std::string> bases;
  if (preferred && preferred->starts_with('/')) bases.push_back(*preferred);
  bases.emplace_back("/tmp");
  for (const std::string& base : bases) {
    std::string name = base + "/ddprun-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) continue;
    path_ = std::move(name);
    return;
  }
  throw Error(fmt::format("cannot make a temporary folder under {}: {}", printable(join(bases, " or ")),
                          to_lower(std::strerror(errno))),
              "set TMPDIR to a folder that can be written to");
}

TempDir::~TempDir() {
  if (::getpid() != owner_) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ddprun
