// Attributes of one PCI device as hwloc shows them.
#pragma once

#include <hwloc.h>

#include <optional>

#include "facts/topology.hpp"

namespace ddprun::os {

// Reads a GPU or a network card, without the CPUs near it; nullopt for other devices.
std::optional<facts::PciDevice> read_hwloc_device(hwloc_obj_t device);

}  // namespace ddprun::os
