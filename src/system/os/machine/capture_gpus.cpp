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
#include "facts/gpu_text.hpp"
#include "os/machine/capture_pci.hpp"
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

}  // namespace ddprun::os
