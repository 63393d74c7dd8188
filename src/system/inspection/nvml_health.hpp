// Health of the GPUs and who holds their memory, as NVIDIA's management library sees it.
#pragma once

#include <string>
#include <vector>

#include "check/gpu_release.hpp"

namespace ddprun::inspection {

// Processes that hold memory of this node's NVIDIA GPUs.

// Asks NVML, and /proc and /etc/passwd for the names. Empty where there is no driver. As ask_nvml: call it in
// a child. `root` stands in front of /dev and /proc where a driver shows itself (for tests).
std::vector<check::GpuMemory> capture_gpu_memory(const std::string& nvml = "libnvidia-ml.so.1",
                                                 const std::string& root = "");

// Loads `library` and returns a list of check::GpuHealth as JSON text, of the GPUs that this process may
// ask for, in the driver's order. Empty where there is no driver. As ask_nvml: call it in a child. A function
// that an older driver lacks leaves its field as it is.
std::string ask_nvml_health(const std::string& library);

}  // namespace ddprun::inspection
