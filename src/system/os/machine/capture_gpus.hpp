// GPUs that this process may open, from device files and the drivers' text files.
// No device is opened, since that alone can take seconds to initialise it, and no vendor library is loaded.
#pragma once

#include <string>
#include <vector>

#include "facts/snapshot.hpp"

namespace ddprun::os {

// Returns NVIDIA's in PCI order, AMD's in the order of the kernel's KFD topology (which ROCm follows), Intel
// data-centre GPUs in PCI order, one entry a tile. UUIDs of NVIDIA and AMD as far as the drivers' files have
// them. Device control groups are respected: access(2) asks them. `root` stands in front of /dev, /proc and
// /sys (for tests).
std::vector<facts::Gpu> capture_gpus(const std::string& root = "");

}  // namespace ddprun::os
