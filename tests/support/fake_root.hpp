// A folder that stands for / and holds the files of an imagined machine.
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "os/files/temp_dir.hpp"

namespace ddprun {

class FakeRoot {
 public:
  FakeRoot() : folder_(std::nullopt) {}
  const std::string& path() const { return folder_.path(); }
  void add(const std::string& path, const std::string& contents = "") const {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << contents;
  }
  void link(const std::string& path, const std::string& target) const {
    const std::filesystem::path name = folder_.path() + path;
    std::filesystem::create_directories(name.parent_path());
    std::filesystem::create_directory_symlink(folder_.path() + target, name);
  }

 private:
  os::TempDir folder_;
};

}  // namespace ddprun
