#include "os/machine/capture_pci.hpp"

#include <stdlib.h>

#include <memory>
#include <optional>

#include "base/text.hpp"
#include "facts/gpu_text.hpp"
#include "facts/proc_text.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

constexpr const char* k_devices = "/sys/bus/pci/devices/";

std::optional<std::uint32_t> read_id(const std::string& path) {
  return facts::parse_pci_id(try_read_file(path).value_or(""));
}

// Returns the bridges above a device. The folder of every device stands in that of the bridge above it:
// /sys/devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0.
std::vector<std::string> find_bridges(const std::string& device) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(device.c_str(), nullptr), ::free);
  std::vector<std::string> path;
  for (const std::string& folder : split(real ? real.get() : "", '/')) {
    // A bridge's name is an address, and that of the host bridge is not.
    if (facts::normal_pci_address(folder) == folder && folder.find('.') != std::string::npos &&
        folder.find(':') != std::string::npos)
      path.push_back(folder);
  }
  if (!path.empty()) path.pop_back();
  return path;
}

std::vector<std::string> find_names(const std::string& device, facts::DeviceKind kind) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& folder, std::string_view prefix) {
    for (const std::string& name : list_folder(folder)) {
      if (name.starts_with(prefix)) names.push_back(name);
    }
  };
  if (kind == facts::DeviceKind::gpu) {
    add(device + "/drm", "card");
    return names;
  }
  for (const char* of_class : {"/infiniband", "/cxi", "/net"}) add(device + of_class, "");
  // The network interface of a virtual machine stands one level below.
  for (const std::string& below : list_folder(device)) {
    if (below.starts_with("virtio")) add(device + "/" + below + "/net", "");
  }
  return names;
}

// Returns the state of an RDMA device's ports: "4: ACTIVE" and "InfiniBand" or "Ethernet".
facts::CardLink find_link(const std::string& rdma_device) {
  facts::CardLink link = facts::CardLink::unknown;
  for (const std::string& port : list_folder(rdma_device + "/ports")) {
    const std::string folder = rdma_device + "/ports/" + port;
    const std::string state = try_read_file(folder + "/state").value_or("");
    if (state.empty()) continue;
    if (!state.starts_with("4:")) {
      if (link == facts::CardLink::unknown) link = facts::CardLink::down;
    } else if (link != facts::CardLink::infiniband) {
      const std::string layer = try_read_file(folder + "/link_layer").value_or("");
      link = trim(layer) == "InfiniBand" ? facts::CardLink::infiniband : facts::CardLink::ethernet;
    }
  }
  return link;
}

// Takes the name of any RDMA device that the kernel lists there, whatever udev has called it.
void take_rdma(facts::PciDevice& device, const std::string& folder) {
  for (const char* of_class : {"/infiniband", "/cxi"}) {
    for (const std::string& name : list_folder(folder + of_class)) {
      if (!device.rdma.empty()) continue;
      device.rdma = name;
      device.link = find_link(folder + of_class + "/" + name);
    }
  }
}

}  // namespace

std::vector<int> capture_local_cpus(const std::string& pci_address, const std::string& root) {
  if (pci_address.empty()) return {};
  const std::string device = root + k_devices + pci_address;
  const std::string list = try_read_file(device + "/local_cpulist").value_or("");
  const std::string node = try_read_file(device + "/numa_node").value_or("-1");
  const std::string all = try_read_file(root + "/sys/devices/system/cpu/online").value_or("");
  if (trim(node) == "-1" && trim(list) == trim(all)) return {};
  return facts::parse_cpu_list(list).value_or(std::vector<int>{});
}

std::vector<facts::PciDevice> capture_pci_devices(const std::string& root) {
  std::vector<facts::PciDevice> devices;
  for (const std::string& address : list_folder(root + k_devices)) {
    const std::string device = root + k_devices + address;
    const auto code = read_id(device + "/class");  // 0x030200: class and programming interface
    const auto vendor = read_id(device + "/vendor");
    const auto id = read_id(device + "/device");
    const auto kind = code && vendor && id ? facts::judge_pci_device(*code >> 8, *vendor, *id) : std::nullopt;
    if (!kind) continue;
    facts::PciDevice& found = devices.emplace_back(facts::PciDevice{
        *kind, address, find_names(device, *kind), find_bridges(device), capture_local_cpus(address, root)});
    if (*kind == facts::DeviceKind::gpu) found.vendor = facts::gpu_vendor(*vendor);
    if (*kind == facts::DeviceKind::network) take_rdma(found, device);
  }
  return devices;
}

}  // namespace ddprun::os
