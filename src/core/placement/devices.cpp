#include "placement/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/text.hpp"

namespace ddprun::placement {

namespace {

struct Device {
  std::string entry;
  std::optional<int> gpu{};  // index as in VisibleDevices::gpus
};
using Devices = std::vector<Device>;

// Devices that a list of a visibility variable chooses from.
struct Offer {
  Devices devices;
  bool complete = false;  // an index past the end is invalid; else it may only be unknown
};

constexpr std::int64_t k_too_large = std::numeric_limits<std::int64_t>::max();  // for what is no number

enum class Form { invalid, index, gpu, mig };

Form form_of(std::string_view entry) {
  if (entry.starts_with("GPU-")) return Form::gpu;
  if (entry.starts_with("MIG-")) return Form::mig;
  const bool digits = !entry.empty() && entry.find_first_not_of("0123456789") == std::string_view::npos;
  return digits ? Form::index : Form::invalid;
}

std::vector<std::string> cut_list(const std::string& text) {
  std::vector<std::string> entries;
  Form first = Form::invalid;
  for (const std::string& piece : split(text, ',')) {
    const std::string entry(trim(piece));
    const Form form = form_of(entry);
    if (entries.empty()) first = form;
    if (form == Form::invalid || form != first) break;
    entries.push_back(entry);
  }
  return entries;
}

// Reports whether the entry is an instance of the GPU: "MIG-GPU-<uuid of the GPU>/gi/ci" until driver 470,
// then "MIG-<uuid of its own>".
bool is_instance_of(const facts::Gpu& gpu, const std::string& entry) {
  constexpr std::string_view k_old = "MIG-";
  const bool listed = std::ranges::find(gpu.mig, entry) != gpu.mig.end();
  return listed || (!gpu.uuid.empty() && entry.starts_with(std::string(k_old) + gpu.uuid + "/"));
}

bool is_named_by(const facts::Gpu& gpu, const std::string& entry) {
  if (form_of(entry) == Form::mig) return is_instance_of(gpu, entry);
  return form_of(entry) == Form::gpu && gpu.uuid.starts_with(entry);
}

// Reports whether the machine has shown enough to say that an entry names no GPU.
bool all_named(const std::vector<facts::Gpu>& gpus, Form form) {
  return std::ranges::all_of(
      gpus, [&](const facts::Gpu& gpu) { return form == Form::mig ? !gpu.mig.empty() : !gpu.uuid.empty(); });
}

// Chooses the entries before the first invalid one, as CUDA and HIP do; HIP takes a repeated one once.
Devices choose(const Offer& offer, const std::vector<std::string>& entries,
               const std::vector<facts::Gpu>& gpus) {
  Devices chosen;
  for (const std::string& entry : entries) {
    const auto is_same = [&](const Device& device) { return device.entry == entry; };
    if (std::ranges::any_of(chosen, is_same)) continue;
    const Form form = form_of(entry);
    if (form == Form::index) {
      const auto index = parse_integer(entry).value_or(k_too_large);
      const bool there = index < static_cast<std::int64_t>(offer.devices.size());
      if (!there && offer.complete) break;
      chosen.push_back({entry, there ? offer.devices[static_cast<std::size_t>(index)].gpu : std::nullopt});
    } else {
      const auto gpu = find_gpu(gpus, entry);
      if (!gpu && offer.complete && all_named(gpus, form)) break;
      chosen.push_back({entry, gpu});
    }
  }
  return chosen;
}

// Replaces GPUs in MIG mode by their instances, as only these are there; CUDA does not look at whole GPUs
// beside an instance.
void replace_by_instances(Devices& devices, const std::vector<facts::Gpu>& gpus) {
  Devices instances;
  for (const Device& device : devices) {
    if (form_of(device.entry) == Form::mig) {
      instances.push_back(device);
    } else if (device.gpu) {
      for (const std::string& name : gpus[static_cast<std::size_t>(*device.gpu)].mig) {
        instances.push_back({name, device.gpu});
      }
    }
  }
  if (!instances.empty()) devices = instances;
}

bool has_instances(const std::vector<facts::Gpu>& gpus) {
  return std::ranges::any_of(gpus, [](const facts::Gpu& gpu) { return !gpu.mig.empty(); });
}

std::string vendor_of(const facts::Snapshot& snapshot) {
  const std::vector<facts::Gpu>& gpus = snapshot.host.gpus;
  for (const char* vendor : {"nvidia", "amd", "intel"}) {  // others may be the processor's own graphics
    const auto is_of = [&](const facts::Gpu& gpu) { return gpu.vendor == vendor; };
    if (std::ranges::any_of(gpus, is_of)) return vendor;
  }
  const auto is_set = [&](const char* name) { return facts::find_variable(snapshot, name).has_value(); };
  // Slurm sets all but HIP's, whatever the GPUs are.
  if (!facts::find_variable(snapshot, "HIP_VISIBLE_DEVICES").value_or("").empty()) return "amd";
  if (is_set("CUDA_VISIBLE_DEVICES")) return "nvidia";
  if (is_set("ROCR_VISIBLE_DEVICES")) return "amd";
  return is_set("ZE_AFFINITY_MASK") ? "intel" : "nvidia";
}

// Returns the offer in the order of the PCI bus. That is CUDA's own order with CUDA_DEVICE_ORDER=PCI_BUS_ID
// and where all GPUs are alike; where they are not, find_unsure_order says so. ROCr's is that of KFD, as
// captured.
Offer offer_of(const facts::HostFacts& host, const std::string& vendor) {
  Offer offer;
  for (std::size_t i = 0; i < host.gpus.size(); ++i) {
    if (host.gpus[i].vendor != vendor) continue;
    offer.devices.push_back({fmt::format("{}", offer.devices.size()), static_cast<int>(i)});
  }
  offer.complete = !offer.devices.empty() && host.warnings.empty();
  return offer;
}

bool is_composite(const facts::Snapshot& snapshot) {
  return facts::find_variable(snapshot, "ZE_FLAT_DEVICE_HIERARCHY") == "COMPOSITE";
}

// Returns the cards, each standing for its first tile: HostFacts has an entry a tile, all with the card's
// address.
Offer cards_of(const Offer& tiles, const std::vector<facts::Gpu>& gpus) {
  Offer cards{{}, tiles.complete};
  std::set<std::string> seen;
  for (const Device& tile : tiles.devices) {
    const std::string& address = gpus[static_cast<std::size_t>(tile.gpu.value())].pci_address;
    if (!address.empty() && !seen.insert(address).second) continue;
    cards.devices.push_back({fmt::format("{}", cards.devices.size()), tile.gpu});
  }
  return cards;
}

// Finds a tile of a card; they follow each other in HostFacts, with the same address.
std::optional<int> find_tile(std::optional<int> card, const std::string& number,
                             const std::vector<facts::Gpu>& gpus) {
  const auto tile = parse_integer(number).value_or(-1);
  const auto count = static_cast<std::int64_t>(gpus.size());
  if (!card || tile < 0 || tile >= count - *card) return std::nullopt;
  const auto address_of = [&](std::int64_t index) {
    return gpus[static_cast<std::size_t>(index)].pci_address;
  };
  if (address_of(*card + tile) != address_of(*card)) return std::nullopt;
  return static_cast<int>(*card + tile);
}

// Chooses by a mask. It is a set: its devices come in their own order, and a part that names none is skipped.
// Where cards are devices, "0.0,0.1,1.0" leaves two, one of them with two tiles; where tiles are, "0.0" names
// none. (compute-runtime, parseAffinityMask)
Devices choose_by_mask(const Offer& offer, const std::string& mask, const std::vector<facts::Gpu>& gpus,
                       bool composite) {
  std::map<std::int64_t, Device> chosen;
  for (const std::string& piece : split(mask, ',')) {
    const std::string entry(trim(piece));
    const auto parts = split(entry, '.');
    const auto number = parse_integer(parts.front());
    if (!number || *number < 0 || (parts.size() > 1 && !composite)) continue;
    const Devices found = choose(offer, {parts.front()}, gpus);
    if (found.empty()) continue;
    const auto [place, added] = chosen.try_emplace(*number, Device{entry, found.front().gpu});
    if (added) {
      if (parts.size() > 1) place->second.gpu = find_tile(found.front().gpu, parts[1], gpus);
    } else if (composite) {
      place->second.entry += "," + entry;
    }
  }
  Devices devices;
  for (auto& [number, device] : chosen) devices.push_back(std::move(device));
  return devices;
}

// Counts the devices that a mask means, there or not.
std::size_t count_in_mask(const std::string& mask, bool composite) {
  std::set<std::string> numbers;
  for (const std::string& piece : split(mask, ',')) {
    const auto parts = split(trim(piece), '.');
    const bool valid = form_of(parts.front()) == Form::index && (composite || parts.size() == 1);
    if (valid) numbers.insert(parts.front());
  }
  return numbers.size();
}

struct Found {
  Devices devices;
  std::string variable;
  std::string origin;
  std::size_t named = 0;  // devices that the variable's list means, there or not
  bool of_step = false;   // SLURM_STEP_GPUS tells them
};

std::size_t count_different(const std::vector<std::string>& entries) {
  return std::set<std::string>(entries.begin(), entries.end()).size();
}

std::optional<Found> find_cuda(const facts::Snapshot& snapshot, const Offer& offer) {
  const char* name = "CUDA_VISIBLE_DEVICES";
  const auto text = facts::find_variable(snapshot, name);
  if (!text) return std::nullopt;
  const std::vector<std::string> entries = parse_device_list(*text);
  return Found{choose(offer, entries, snapshot.host.gpus), name, name, entries.size()};
}

// Finds the devices of ROCm. ROCr leaves devices and numbers them anew; HIP counts within those. It takes
// CUDA's variable for its own if that is not set, and an empty one for one that is not.
std::optional<Found> find_rocm(const facts::Snapshot& snapshot, Offer offer) {
  const std::vector<facts::Gpu>& gpus = snapshot.host.gpus;
  std::optional<Found> found;
  if (const auto text = facts::find_variable(snapshot, "ROCR_VISIBLE_DEVICES")) {
    const std::vector<std::string> entries = cut_list(*text);
    offer = {choose(offer, entries, gpus), true};
    found = {offer.devices, "ROCR_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", count_different(entries)};
  }
  for (const char* name : {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    const auto text = facts::find_variable(snapshot, name);
    if (!text || text->empty()) continue;
    const std::string origin = found ? fmt::format("{} within {}", name, found->variable) : name;
    const std::vector<std::string> entries = cut_list(*text);
    return Found{choose(offer, entries, gpus), name, origin, count_different(entries)};
  }
  return found;
}

// Finds the devices of Level Zero. ONEAPI_DEVICE_SELECTOR is SYCL's own and counts within what the mask
// leaves.
std::optional<Found> find_level_zero(const facts::Snapshot& snapshot, const Offer& offer) {
  const char* name = "ZE_AFFINITY_MASK";
  const auto text = facts::find_variable(snapshot, name);
  if (!text || text->empty()) return std::nullopt;
  const bool composite = is_composite(snapshot);
  return Found{choose_by_mask(offer, *text, snapshot.host.gpus, composite), name, name,
               count_in_mask(*text, composite)};
}

// Finds the devices of a step, whose numbers are on the whole host. Under a device cgroup the process counts
// what is left from 0, and so does its runtime.
Found find_step(const Offer& offer, const std::string& text) {
  const std::vector<std::string> numbers = cut_list(text);
  Found found{{}, {}, "SLURM_STEP_GPUS", numbers.size(), true};
  const bool counted_here = std::ranges::all_of(numbers, [&](const std::string& number) {
    return parse_integer(number).value_or(k_too_large) < std::int64_t(offer.devices.size());
  });
  if (counted_here || offer.devices.empty()) {
    found.devices = choose(offer, numbers, {});
  } else {
    const std::size_t count = std::min(numbers.size(), offer.devices.size());
    found.devices.assign(offer.devices.begin(), offer.devices.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return found;
}

Found find_devices(const facts::Snapshot& snapshot, const std::string& vendor) {
  Offer offer = offer_of(snapshot.host, vendor);
  const bool intel = vendor == "intel";
  if (intel && is_composite(snapshot)) offer = cards_of(offer, snapshot.host.gpus);
  const auto by_variable = intel             ? find_level_zero(snapshot, offer)
                           : vendor == "amd" ? find_rocm(snapshot, offer)
                                             : find_cuda(snapshot, offer);
  if (by_variable) return *by_variable;
  // In MIG mode the step's numbers may count instances.
  const auto step = facts::find_variable(snapshot, "SLURM_STEP_GPUS");
  if (step && !has_instances(snapshot.host.gpus)) return find_step(offer, *step);
  return {offer.devices, {}, {}, 0};
}

// Returns the variable that the vendor's own runtime reads, if there is no other to go by.
std::string narrowing_variable(const std::string& vendor) {
  return vendor == "amd"     ? "HIP_VISIBLE_DEVICES"
         : vendor == "intel" ? "ZE_AFFINITY_MASK"
                             : "CUDA_VISIBLE_DEVICES";
}

// Describes missing GPUs: one that fell off its bus, or a list written for another machine. Fewer workers
// would be all one sees.
std::string describe_missing(const facts::Snapshot& snapshot, const Found& found, bool mig) {
  const std::size_t there = snapshot.host.gpus.empty() ? 0 : found.devices.size();
  const auto tell = [&](const std::string& promise) {
    return fmt::format("{}, {} visible", promise,
                       there == 0 ? "none is" : fmt::format("{} {}", there, there == 1 ? "is" : "are"));
  };
  if (found.named > there) {
    return tell(fmt::format("{} names {}", found.origin, count_of(static_cast<int>(found.named), "GPU")));
  }
  if (!found.variable.empty() || mig) return {};  // Slurm may count instances
  const char* const grant = "SLURM_GPUS_ON_NODE";
  const auto granted = parse_integer(facts::find_variable(snapshot, grant).value_or("0")).value_or(0);
  if (granted <= static_cast<std::int64_t>(there)) return {};
  return tell(fmt::format("{} is {}", grant, granted));
}

}  // namespace

std::vector<std::string> parse_device_list(const std::string& text) {
  const std::vector<std::string> entries = cut_list(text);
  return count_different(entries) < entries.size() ? std::vector<std::string>{} : entries;
}

std::optional<int> find_gpu(const std::vector<facts::Gpu>& gpus, const std::string& entry) {
  if (form_of(entry) == Form::index) {
    const auto index = parse_integer(entry).value_or(k_too_large);
    if (index >= static_cast<std::int64_t>(gpus.size())) return std::nullopt;
    return static_cast<int>(index);
  }
  std::optional<int> found;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (!is_named_by(gpus[i], entry)) continue;
    if (found) return std::nullopt;
    found = static_cast<int>(i);
  }
  return found;
}

VisibleDevices find_visible_devices(const facts::Snapshot& snapshot) {
  const std::string vendor = vendor_of(snapshot);
  Found found = find_devices(snapshot, vendor);
  VisibleDevices visible;
  visible.missing = describe_missing(snapshot, found, has_instances(snapshot.host.gpus));
  replace_by_instances(found.devices, snapshot.host.gpus);
  visible.variable = found.variable;
  visible.narrowing = found.variable.empty() ? narrowing_variable(vendor) : found.variable;
  for (Device& device : found.devices) {
    visible.one_a_process = visible.one_a_process || form_of(device.entry) == Form::mig;
    visible.entries.push_back(std::move(device.entry));
    visible.gpus.push_back(device.gpu);
  }
  const std::size_t count = visible.entries.size();
  visible.origin = found.origin;
  visible.of_step = found.of_step;
  if (found.origin.empty() && count > 0) {
    visible.origin = fmt::format("{} of this host", visible.one_a_process
                                                        ? count_of(static_cast<int>(count), "MIG instance")
                                                        : count_of(static_cast<int>(count), "GPU"));
  }
  return visible;
}

std::optional<allocation::Notice> find_unsure_order(const facts::Snapshot& snapshot,
                                                    const VisibleDevices& devices, const std::string& host) {
  std::set<std::string> models;
  for (const facts::Gpu& gpu : snapshot.host.gpus) {
    if (gpu.vendor == "nvidia" && !gpu.model.empty()) models.insert(printable(gpu.model, 60));
  }
  const bool numbered =
      std::ranges::any_of(devices.entries, [](const auto& entry) { return form_of(entry) == Form::index; });
  const bool by_address = facts::find_variable(snapshot, "CUDA_DEVICE_ORDER") == "PCI_BUS_ID";
  if (models.size() < 2 || !numbered || by_address) return std::nullopt;
  return allocation::Notice{fmt::format("{} has unlike GPUs ({}): CUDA numbers the fastest first, ddprun the "
                                        "one with the lowest PCI address",
                                        host, join({models.begin(), models.end()}, ", ")),
                            "export CUDA_DEVICE_ORDER=PCI_BUS_ID, so that both number them alike"};
}

}  // namespace ddprun::placement
