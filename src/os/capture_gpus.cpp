#include "ddprun/os/capture_gpus.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>

#include "ddprun/base/text.hpp"
#include "ddprun/facts/gpu_text.hpp"
#include "ddprun/os/read_file.hpp"

namespace ddprun {

namespace {

// Names in a folder, sorted; empty when there is no such folder.
std::vector<std::string> list_folder(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (!folder) return names;
  while (const dirent* const entry = ::readdir(folder.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// "nvidia12" with the prefix "nvidia" is 12; nothing for "nvidiactl".
std::optional<int> number_after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto number = parse_integer(name.substr(prefix.size()));
  if (!number || *number < 0 || *number > 4095) return std::nullopt;
  return static_cast<int>(*number);
}

bool may_use(const std::string& path) { return ::access(path.c_str(), R_OK | W_OK) == 0; }

std::vector<Gpu> capture_nvidia(const std::string& root) {
  std::map<int, std::string> pci_by_minor;
  const std::string folder = root + "/proc/driver/nvidia/gpus";
  std::vector<int> excluded;
  for (const std::string& pci : list_folder(folder)) {
    const auto text = try_read_file(folder + "/" + pci + "/information");
    const NvidiaInformation information = parse_nvidia_information(text.value_or(""));
    if (!information.minor) continue;
    pci_by_minor[*information.minor] = pci;
    if (information.excluded) excluded.push_back(*information.minor);
  }
  std::vector<std::pair<std::string, int>> found;  // PCI address, minor; those without an address come last
  for (const std::string& name : list_folder(root + "/dev")) {
    const auto minor = number_after(name, "nvidia");
    if (!minor || !may_use(root + "/dev/" + name)) continue;
    if (std::find(excluded.begin(), excluded.end(), *minor) != excluded.end()) continue;
    const auto pci = pci_by_minor.find(*minor);
    found.emplace_back(pci == pci_by_minor.end() ? "" : pci->second, *minor);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.first.empty(), a) < std::tuple(b.first.empty(), b);
  });
  std::vector<Gpu> gpus;
  for (const auto& [pci, minor] : found) gpus.push_back({"nvidia", pci});
  return gpus;
}

std::vector<Gpu> capture_amd(const std::string& root) {
  std::vector<Gpu> gpus;
  if (!may_use(root + "/dev/kfd")) return gpus;
  const std::string folder = root + "/sys/class/kfd/kfd/topology/nodes";
  std::vector<int> nodes;
  for (const std::string& name : list_folder(folder)) {
    if (const auto node = number_after(name, "")) nodes.push_back(*node);
  }
  std::sort(nodes.begin(), nodes.end());
  for (const int node : nodes) {
    const auto text = try_read_file(fmt::format("{}/{}/properties", folder, node));
    const auto gpu = parse_kfd_properties(text.value_or(""));
    if (!gpu) continue;
    const bool forbidden =
        gpu->render_minor > 0 && !may_use(fmt::format("{}/dev/dri/renderD{}", root, gpu->render_minor));
    if (!forbidden) gpus.push_back({"amd", gpu->pci_address});
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

std::vector<Gpu> capture_intel(const std::string& root) {
  std::vector<Gpu> gpus;
  const std::string folder = root + "/sys/class/drm";
  for (const std::string& name : list_folder(folder)) {
    if (!number_after(name, "card")) continue;
    const std::string device = folder + "/" + name + "/device";
    const auto vendor = parse_pci_id(try_read_file(device + "/vendor").value_or(""));
    const auto id = parse_pci_id(try_read_file(device + "/device").value_or(""));
    if (!vendor || !id || !is_intel_accelerator(*vendor, *id)) continue;
    const std::vector<std::string> nodes = list_folder(device + "/drm");
    const auto render = std::find_if(nodes.begin(), nodes.end(),
                                     [](const std::string& node) { return node.starts_with("renderD"); });
    if (render == nodes.end() || !may_use(root + "/dev/dri/" + *render)) continue;
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(device.c_str(), nullptr), ::free);
    const std::string path = real ? real.get() : "";
    gpus.insert(gpus.end(), count_tiles(folder + "/" + name), {"intel", path.substr(path.rfind('/') + 1)});
  }
  std::stable_sort(gpus.begin(), gpus.end(),
                   [](const Gpu& a, const Gpu& b) { return a.pci_address < b.pci_address; });
  return gpus;
}

}  // namespace

std::vector<Gpu> capture_gpus(const std::string& root) {
  std::vector<Gpu> gpus;
  for (const auto capture : {capture_nvidia, capture_amd, capture_intel}) {
    const std::vector<Gpu> found = capture(root);
    gpus.insert(gpus.end(), found.begin(), found.end());
  }
  return gpus;
}

}  // namespace ddprun
