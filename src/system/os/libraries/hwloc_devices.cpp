#include "os/libraries/hwloc_devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "facts/proc_text.hpp"

namespace ddprun::os {

namespace {

constexpr int k_most_parts = 64;

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

std::string address_of(const PciAttributes& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

// Reads the ports. "Port1State" is the number of the state in verbs; a port of Ethernet has no LID.
void read_ports(hwloc_obj_t device, facts::PciDevice& card) {
  constexpr std::string_view k_active = "4";
  if (device->type != HWLOC_OBJ_OS_DEVICE || device->name == nullptr ||
      device->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS)
    return;
  const auto info = [&](int port, const char* what) {
    const char* const text = hwloc_obj_get_info_by_name(device, fmt::format("Port{}{}", port, what).c_str());
    return std::string_view(text == nullptr ? "" : text);
  };
  card.rdma = device->name;
  for (int port = 1; !info(port, "State").empty(); ++port) {
    if (info(port, "State") != k_active) {
      if (card.link == facts::CardLink::unknown) card.link = facts::CardLink::down;
    } else if (card.link != facts::CardLink::infiniband) {
      const bool lid = !info(port, "LID").empty() && info(port, "LID") != "0x0";
      card.link = lid ? facts::CardLink::infiniband : facts::CardLink::ethernet;
    }
  }
}

// Reads a GPU with ROCm's and Level Zero's own devices below a card, where lstopo was built to ask for them:
// rsmi0 to rsmi5 of an MI300A in CPX mode, ze0.0 and ze0.1 of a card with two tiles.
void read_gpu(hwloc_obj_t device, facts::PciDevice& gpu) {
  const PciAttributes& pci = device->attr->pcidev;
  gpu.vendor = facts::gpu_vendor(pci.vendor_id);
  gpu.parts = gpu.vendor == "intel" ? facts::tiles_of_intel(pci.device_id) : 1;
  const char* const name = hwloc_obj_get_info_by_name(device, "PCIDevice");
  if (name != nullptr) gpu.model = name;
  int shown = 0;
  for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
    const char* const model = hwloc_obj_get_info_by_name(child, "GPUModel");
    if (model != nullptr && *model != '\0') gpu.model = model;
    const std::string_view own = child->name == nullptr ? "" : child->name;
    if (!own.starts_with("rsmi") && !own.starts_with("ze")) continue;
    shown += std::max(1, static_cast<int>(child->io_arity));
  }
  gpu.parts = std::max(gpu.parts, std::min(shown, k_most_parts));
}

std::vector<std::string> bridges_above(hwloc_obj_t device) {
  std::vector<std::string> path;
  for (hwloc_obj_t above = device->parent; above != nullptr; above = above->parent) {
    if (above->type == HWLOC_OBJ_BRIDGE && above->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
      path.push_back(address_of(above->attr->bridge.upstream.pci));
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

std::optional<facts::PciDevice> read_hwloc_device(hwloc_obj_t device) {
  const PciAttributes& pci = device->attr->pcidev;
  const auto kind = facts::judge_pci_device(pci.class_id, pci.vendor_id, pci.device_id);
  if (!kind) return std::nullopt;
  facts::PciDevice found{*kind, address_of(pci), {}, bridges_above(device), {}};
  for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type == HWLOC_OBJ_OS_DEVICE && child->name != nullptr) found.names.emplace_back(child->name);
    if (found.rdma.empty()) read_ports(child, found);
  }
  if (*kind == facts::DeviceKind::gpu) read_gpu(device, found);
  return found;
}

}  // namespace ddprun::os
