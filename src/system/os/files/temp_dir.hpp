// A private folder for the files of one run.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddprun::os {

// Returns the places where it may lie, best first: the job's own TMPDIR, the user's /run/user, /tmp. The
// first two are emptied by others at the latest when the job or the session is over. Files in it are
// executed, so a TMPDIR that other users can change (os/path_walk.hpp) is left out. `name` tells the run from
// all others: a process that has these paths may remove them (Reaper).
std::vector<std::string> temp_dir_places(const std::optional<std::string>& tmpdir, const std::string& name);

// Made with mode 0700 at the first of `places` that takes it and that no other user can change; removed with
// all it holds by the destructor of the process that made it (a forked child's copy removes nothing).
class TempDir {
 public:
  // Throws Error when none takes a folder.
  explicit TempDir(const std::vector<std::string>& places);
  // Makes a folder with a random name.
  explicit TempDir(const std::optional<std::string>& tmpdir);
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  const std::string& path() const noexcept { return path_; }
  void remove();  // now already

 private:
  std::string path_;
  int owner_;
  bool removed_ = false;
};

}  // namespace ddprun::os
