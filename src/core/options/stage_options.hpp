// Paths that are copied to the hosts before the workers start (--stage).
#pragma once

#include <string>
#include <vector>

namespace ddprun::options {

struct StageOptions {
  std::vector<std::string> paths;  // paths as given, in their order
  std::string to;                  // --stage-to: a folder of each host; empty: TMPDIR, else /dev/shm
  bool keep = false;               // --stage-keep: for the next job
};

}  // namespace ddprun::options
