// Health of the GPUs before a job starts, as NVIDIA's management library sees it.
#pragma once

#include <string>

namespace ddprun::inspection {

// Loads `library` and returns a list of check::GpuHealth as JSON text, of the GPUs that this process may
// ask for, in the driver's order. Empty where there is no driver. As ask_nvml: call it in a child. A function
// that an older driver lacks leaves its field as it is.
std::string ask_nvml_health(const std::string& library);

}  // namespace ddprun::inspection
