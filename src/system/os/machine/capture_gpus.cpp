#include "os/machine/capture_gpus.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

// Returns 12 for "nvidia12" with the prefix "nvidia"; nullopt for "nvidiactl".
std::optional<int> number_after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto number = parse_integer(name.substr(prefix.size()));
  if (!number || *number < 0 || *number > 4095) return std::nullopt;
  return static_cast<int>(*number);
}

bool may_use(const std::string& path) { return ::access(path.c_str(), R_OK | W_OK) == 0; }

std::vector<facts::Gpu> capture_nvidia(const std::string& root) {
  std::map<int, std::pair<std::string, facts::NvidiaInformation>> known;  // indexed by minor; with address
  const std::string folder = root + "/proc/driver/nvidia/gpus";
  for (const std::string& pci : list_folder(folder)) {
    const auto text = try_read_file(folder + "/" + pci + "/information");
    const facts::NvidiaInformation information = facts::parse_nvidia_information(text.value_or(""));
    if (information.minor) known[*information.minor] = {pci, information};
  }
  std::vector<std::pair<int, facts::Gpu>> found;
  for (const std::string& name : list_folder(root + "/dev")) {
    const auto minor = number_after(name, "nvidia");
    if (!minor || !may_use(root + "/dev/" + name)) continue;
    const auto& [pci, information] = known[*minor];
    if (information.excluded) continue;
    found.push_back(
        {*minor, {"nvidia", pci, information.uuid, capture_local_cpus(pci, root), {}, information.model}});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {  // GPUs without address come last
    return std::tuple(a.second.pci_address.empty(), a.second.pci_address, a.first) <
           std::tuple(b.second.pci_address.empty(), b.second.pci_address, b.first);
  });
  std::vector<facts::Gpu> gpus;
  for (auto& [minor, gpu] : found) gpus.push_back(std::move(gpu));
  return gpus;
}

std::vector<facts::Gpu> capture_amd(const std::string& root) {
  std::vector<facts::Gpu> gpus;
  if (!may_use(root + "/dev/kfd")) return gpus;
  const std::string folder = root + "/sys/class/kfd/kfd/topology/nodes";
  std::vector<int> nodes;
  for (const std::string& name : list_folder(folder)) {
    if (const auto node = number_after(name, "")) nodes.push_back(*node);
  }
  std::sort(nodes.begin(), nodes.end());
  for (const int node : nodes) {
    const auto text = try_read_file(fmt::format("{}/{}/properties", folder, node));
    const auto gpu = facts::parse_kfd_properties(text.value_or(""));
    if (!gpu) continue;
    const bool forbidden =
        gpu->render_minor > 0 && !may_use(fmt::format("{}/dev/dri/renderD{}", root, gpu->render_minor));
    if (!forbidden)
      gpus.push_back({"amd", gpu->pci_address, gpu->uuid, capture_local_cpus(gpu->pci_address, root)});
  }
  return gpus;
}

// Tiles of a card: tile0, tile1 under the device (driver xe) or gt0, gt1 under the card (driver i915).
std::size_t count_tiles(const std::string& card_folder) {
  const auto count = [](const std::string& folder, std::string_view prefix) {
    const std::vector<std::string> names = list_folder(folder);
    return static_cast<std::size_t>(std::count_if(names.begin(), names.end(), [&](const std::string& name) {
      return number_after(name, prefix).has_value();
    }));
  };
  return std::max({count(card_folder + "/device", "tile"), count(card_folder + "/gt", "gt"), std::size_t{1}});
}

std::vector<facts::Gpu> capture_intel(const std::string& root) {
  std::vector<facts::Gpu> gpus;
  const std::string folder = root + "/sys/class/drm";
  for (const std::string& name : list_folder(folder)) {
    if (!number_after(name, "card")) continue;
    const std::string device = folder + "/" + name + "/device";
    const auto vendor = facts::parse_pci_id(try_read_file(device + "/vendor").value_or(""));
    const auto id = facts::parse_pci_id(try_read_file(device + "/device").value_or(""));
    if (!vendor || !id || !facts::is_intel_accelerator(*vendor, *id)) continue;
    const std::vector<std::string> nodes = list_folder(device + "/drm");
    const auto render = std::find_if(nodes.begin(), nodes.end(),
                                     [](const std::string& node) { return node.starts_with("renderD"); });
    if (render == nodes.end() || !may_use(root + "/dev/dri/" + *render)) continue;
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(device.c_str(), nullptr), ::free);
    const std::string path = real ? real.get() : "";
    const std::string pci = path.substr(path.rfind('/') + 1);
    const facts::Gpu gpu{"intel", pci, {}, capture_local_cpus(pci, root)};
    gpus.insert(gpus.end(), count_tiles(folder + "/" + name), gpu);
  }
  std::stable_sort(gpus.begin(), gpus.end(),
                   [](const facts::Gpu& a, const facts::Gpu& b) { return a.pci_address < b.pci_address; });
  return gpus;
}

}  // namespace

std::vector<facts::Gpu> capture_gpus(const std::string& root) {
  std::vector<facts::Gpu> gpus;
  for (const auto capture : {capture_nvidia, capture_amd, capture_intel}) {
    const std::vector<facts::Gpu> found = capture(root);
    gpus.insert(gpus.end(), found.begin(), found.end());
  }
  return gpus;
}

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
