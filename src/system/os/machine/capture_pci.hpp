// GPUs and network cards of this machine, from sysfs.
#pragma once

#include <string>
#include <vector>

#include "facts/topology.hpp"

namespace ddprun::os {

// Returns the devices by address, with names, bridges and local CPUs. hwloc would read the configuration
// space of every device for this, which costs up to some milliseconds each and wakes those that sleep;
// nothing here touches a device. `root` is put before /sys (for tests).
std::vector<facts::PciDevice> capture_pci_devices(const std::string& root = "");

// Returns the CPUs that a PCI device is near to. Empty if the firmware does not tell: then the kernel's
// numa_node is -1 and its list holds all CPUs.
std::vector<int> capture_local_cpus(const std::string& pci_address, const std::string& root = "");

}  // namespace ddprun::os
