#include "os/files/temp_dir.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/path_walk.hpp"
#include "os/private_files.hpp"
#include "os/process/reaper.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

constexpr const char* k_shared_place = "/tmp";

bool is_own_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
}

}  // namespace

std::vector<std::string> temp_dir_places(const std::optional<std::string>& tmpdir, const std::string& name) {
  std::vector<std::string> bases;
  if (tmpdir && tmpdir->starts_with('/') && *tmpdir != k_shared_place) bases.push_back(*tmpdir);
  const std::string session = fmt::format("/run/user/{}", ::geteuid());
  if (is_own_folder(session)) bases.push_back(session);
  std::erase_if(bases, [](const std::string& base) { return !why_others_can_replace(base).empty(); });
  bases.emplace_back(k_shared_place);
  for (std::string& base : bases) base += "/ddprun-" + name;
  return bases;
}

TempDir::TempDir(const std::vector<std::string>& places) : owner_(::getpid()) {
  std::string why;
  for (const std::string& place : places) {
    why = why_others_can_replace(place.substr(0, place.rfind('/')));
    if (!why.empty()) continue;
    const int error = make_private_folder(place);
    if (error == 0) {
      path_ = place;
      return;
    }
    why = describe_errno(error);
  }
  throw Error(fmt::format("cannot create the temporary folder {}: {}", printable(join(places, " or ")), why),
              "set TMPDIR to a folder that can be written to, and that only this user can change");
}

TempDir::TempDir(const std::optional<std::string>& tmpdir)
    : TempDir(temp_dir_places(tmpdir, make_random_id())) {}

TempDir::~TempDir() { remove(); }

void TempDir::remove() {
  if (::getpid() != owner_ || std::exchange(removed_, true)) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ddprun::os
