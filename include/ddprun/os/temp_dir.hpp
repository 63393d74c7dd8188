// A private folder for the files of one run.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

// Made with mode 0700 under `preferred` (TMPDIR), else under /tmp; removed with all it holds by the
// destructor of the process that made it (a forked child's copy removes nothing).
class TempDir {
 public:
  // Throws Error when neither place takes a folder.
  explicit TempDir(const std::optional<std::string>& preferred);
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  int owner_;
};

}  // namespace ddprun
