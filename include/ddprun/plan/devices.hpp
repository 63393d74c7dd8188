// Which GPUs a process may use, from the visibility variables and what the machine shows.
// Source of the rules: CUDA programming guide (environment variables), ROCm "GPU isolation", Intel's
// ZE_AFFINITY_MASK, Slurm's gres plugins.
#pragma once

#include <string>
#include <vector>

#include "ddprun/facts/snapshot.hpp"

namespace ddprun {

struct VisibleDevices {
  std::vector<std::string> entries;  // as written in the variable, else "0", "1", ...
  std::vector<int> gpus;             // for each entry the index into HostFacts::gpus; -1: not known
  std::string variable;              // the visibility variable that is set; empty: none is
  std::string narrowing;             // the variable that leaves a worker one of them
  std::string origin;                // for the user: "CUDA_VISIBLE_DEVICES", "2 GPUs of this host"
};

// The entries CUDA would accept of such a list: cut at the first invalid one; none for "", "-1",
// "NoDevFiles".
std::vector<std::string> parse_device_list(const std::string& text);

VisibleDevices find_visible_devices(const Snapshot& snapshot);

}  // namespace ddprun
