// Processes that hold memory of this node's NVIDIA GPUs.
#pragma once

#include <string>
#include <vector>

#include "check/gpu_release.hpp"

namespace ddprun::inspection {

// Asks NVML, and /proc and /etc/passwd for the names. Empty where there is no driver. As ask_nvml: call it in
// a child. `root` stands in front of /dev and /proc where a driver shows itself (for tests).
std::vector<check::GpuMemory> capture_gpu_memory(const std::string& nvml = "libnvidia-ml.so.1",
                                                 const std::string& root = "");

}  // namespace ddprun::inspection
