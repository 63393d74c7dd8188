// Parsers of the drivers' text files about one GPU. Pure: os/machine/capture_gpus reads the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "facts/topology.hpp"

namespace ddprun::facts {

// /proc/driver/nvidia/gpus/<pci>/information.
struct NvidiaInformation {
  std::optional<int> minor;  // number in /dev/nvidia<minor>
  std::string uuid{};        // "GPU-..."; empty where the driver shows question marks, as some do to users
  std::string model{};       // "NVIDIA A100-SXM4-40GB"
  bool excluded = false;     // kept away from every program by the driver's configuration
};
NvidiaInformation parse_nvidia_information(std::string_view text);

// /sys/class/kfd/kfd/topology/nodes/<n>/properties of a GPU; nothing for a CPU node and for the empty text
// that the kernel shows where the device cgroup forbids the device.
struct KfdGpu {
  std::string pci_address;
  int render_minor = 0;  // number in /dev/dri/renderD<minor>; 0 when the driver gave none
  std::string uuid{};    // spelt as in ROCR_VISIBLE_DEVICES: "GPU-" and unique_id, 16 hexadecimal digits
};
std::optional<KfdGpu> parse_kfd_properties(std::string_view text);

// Parses "0x0bd5\n" of a PCI device's `vendor` and `device` files.
std::optional<std::uint32_t> parse_pci_id(std::string_view text);
// Reports whether it is one of Intel's cards (Max, Flex, Arc); graphics built into processors are not what a
// job is placed on.
bool is_intel_accelerator(std::uint32_t vendor, std::uint32_t device);
// Returns the tiles of such a card: the Max 1550 has two, each a device of its own for Level Zero.
int tiles_of_intel(std::uint32_t device);
std::string gpu_vendor(std::uint32_t vendor);  // "nvidia", "amd", "intel", else empty

// Returns the use of a PCI device of this class ("0302"), vendor and number for a worker: something to
// compute on or to communicate through. nullopt for the graphics of boards (1a03 ASPEED, 102b Matrox) and of
// desktop processors, and for everything else.
std::optional<DeviceKind> judge_pci_device(std::uint32_t of_class, std::uint32_t vendor,
                                           std::uint32_t device);

}  // namespace ddprun::facts
