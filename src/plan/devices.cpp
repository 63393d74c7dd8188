#include "ddprun/plan/devices.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

bool is_device_entry(std::string_view entry) {
  const bool digits = !entry.empty() && entry.find_first_not_of("0123456789.") == std::string_view::npos;
  return digits || entry.starts_with("GPU-") || entry.starts_with("MIG-");
}

}  // namespace

std::vector<std::string> parse_device_list(const std::string& text) {
  std::vector<std::string> entries;
  for (const std::string& piece : split(text, ',')) {
    const std::string entry(trim(piece));
    if (!is_device_entry(entry)) break;
    entries.push_back(entry);
  }
  return entries;
}

VisibleDevices find_visible_devices(const Snapshot& snapshot) {
  // HIP's variable counts within what ROCR's leaves, so it is asked first; without vendor flags Slurm sets
  // CUDA_, ROCR_ and ZE_ alike to the same numbers.
  for (const char* name :
       {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}) {
    if (const auto value = find_variable(snapshot, name)) return {parse_device_list(*value), name, name};
  }
  if (const auto value = find_variable(snapshot, "SLURM_STEP_GPUS")) {
    return {parse_device_list(*value), {}, "SLURM_STEP_GPUS"};
  }
  VisibleDevices devices;
  for (std::size_t i = 0; i < snapshot.host.gpus.size(); ++i) devices.entries.push_back(fmt::format("{}", i));
  if (!devices.entries.empty()) {
    devices.origin = fmt::format("{} GPUs of this host", devices.entries.size());
  }
  return devices;
}

}  // namespace ddprun
