// GPUs that this process may open, and places of PCI devices, from device files and drivers' text files.
// No device is opened, since that alone can take seconds to initialise it, and no vendor library is loaded.
#pragma once

#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "facts/topology.hpp"

namespace ddprun::os {

// GPUs and network cards of this machine, from sysfs.

// Returns the devices by address, with names, bridges and local CPUs. hwloc would read the configuration
// space of every device for this, which costs up to some milliseconds each and wakes those that sleep;
// nothing here touches a device. `root` is put before /sys (for tests).
std::vector<facts::PciDevice> capture_pci_devices(const std::string& root = "");

// Returns the CPUs that a PCI device is near to. Empty if the firmware does not tell: then the kernel's
// numa_node is -1 and its list holds all CPUs.
std::vector<int> capture_local_cpus(const std::string& pci_address, const std::string& root = "");

// Returns NVIDIA's in PCI order, AMD's in the order of the kernel's KFD topology (which ROCm follows), Intel
// data-centre GPUs in PCI order, one entry a tile. UUIDs of NVIDIA and AMD as far as the drivers' files have
// them. Device control groups are respected: access(2) asks them. `root` stands in front of /dev, /proc and
// /sys (for tests).
std::vector<facts::Gpu> capture_gpus(const std::string& root = "");

}  // namespace ddprun::os
