// The libraries that ddprun uses where they are installed, for --version.
#pragma once

#include <string>
#include <vector>

namespace ddprun::os {

struct OptionalLibrary {
  std::string name;  // name for people: "libslurm"
  std::string file;  // the file that was loaded; empty where there is none
};

// Loads each library and calls nothing in it.
std::vector<OptionalLibrary> find_optional_libraries();

// Returns "2.9.0": hwloc is linked.
std::string hwloc_version();

}  // namespace ddprun::os
