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

// Without a variable to go by, the one that the vendor's own runtime reads.
std::string narrowing_variable(const HostFacts& host) {
  const std::string vendor = host.gpus.empty() ? "" : host.gpus.front().vendor;
  return vendor == "amd"     ? "HIP_VISIBLE_DEVICES"
         : vendor == "intel" ? "ZE_AFFINITY_MASK"
                             : "CUDA_VISIBLE_DEVICES";
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
    if (const auto value = find_variable(snapshot, name))
      return {parse_device_list(*value), name, name, name};
  }
  if (const auto value = find_variable(snapshot, "SLURM_STEP_GPUS")) {
    return {parse_device_list(*value), {}, narrowing_variable(snapshot.host), "SLURM_STEP_GPUS"};
  }
  VisibleDevices devices;
  devices.narrowing = narrowing_variable(snapshot.host);
  for (std::size_t i = 0; i < snapshot.host.gpus.size(); ++i) devices.entries.push_back(fmt::format("{}", i));
  const std::size_t count = devices.entries.size();
  if (count > 0) devices.origin = fmt::format("{} GPU{} of this host", count, count == 1 ? "" : "s");
  return devices;
}

}  // namespace ddprun
