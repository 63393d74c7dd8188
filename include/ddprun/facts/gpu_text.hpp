// What the drivers' text files say about one GPU. Pure: os/capture_gpus reads the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// /proc/driver/nvidia/gpus/<pci>/information.
struct NvidiaInformation {
  std::optional<int> minor;  // of /dev/nvidia<minor>
  bool excluded = false;     // kept away from every program by the driver's configuration
};
NvidiaInformation parse_nvidia_information(std::string_view text);

// /sys/class/kfd/kfd/topology/nodes/<n>/properties of a GPU; nothing for a CPU node and for the empty text
// that the kernel shows where the device cgroup forbids the device.
struct KfdGpu {
  std::string pci_address;
  int render_minor = 0;  // of /dev/dri/renderD<minor>; 0 when the driver gave none
};
std::optional<KfdGpu> parse_kfd_properties(std::string_view text);

// "0x0bd5\n" of a PCI device's `vendor` and `device` files.
std::optional<std::uint32_t> parse_pci_id(std::string_view text);
// Intel's data-centre GPUs (Max and Flex series); graphics built into processors and desktop cards are not
// what a job is placed on.
bool is_intel_accelerator(std::uint32_t vendor, std::uint32_t device);

}  // namespace ddprun
