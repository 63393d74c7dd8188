#include "facts/gpu_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.hpp"

namespace ddprun::facts {

NvidiaInformation parse_nvidia_information(std::string_view text) {
  NvidiaInformation information;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view value = trim(std::string_view(line).substr(colon + 1));
    if (line.starts_with("Model")) information.model = value;
    if (line.starts_with("GPU Excluded")) information.excluded = value == "Yes";
    if (line.starts_with("GPU UUID") && value.starts_with("GPU-") && value.find('?') == std::string::npos)
      information.uuid = value;
    if (!line.starts_with("Device Minor")) continue;
    const auto minor = parse_integer(value);
    if (minor && *minor >= 0 && *minor < 4096) information.minor = static_cast<int>(*minor);
  }
  return information;
}

std::optional<KfdGpu> parse_kfd_properties(std::string_view text) {
  std::int64_t simd_count = 0;
  std::int64_t location = 0;
  std::int64_t domain = 0;
  std::int64_t render_minor = 0;
  std::uint64_t unique_id = 0;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> words = split_words(line);
    if (words.size() != 2) continue;
    const std::int64_t value = parse_integer(words[1]).value_or(0);
    if (words[0] == "simd_count") simd_count = value;
    if (words[0] == "location_id") location = value;
    if (words[0] == "domain") domain = value;
    if (words[0] == "drm_render_minor") render_minor = value;
    // The one number of the file that needs all 64 bits.
    if (words[0] == "unique_id")
      std::from_chars(words[1].data(), words[1].data() + words[1].size(), unique_id);
  }
  if (simd_count <= 0) return std::nullopt;
  KfdGpu gpu;
  // location_id is the kernel's pci_dev_id: bus, device and function in 8, 5 and 3 bits.
  gpu.pci_address = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain & 0xffffffff, (location >> 8) & 0xff,
                                (location >> 3) & 0x1f, location & 7);
  if (render_minor > 0 && render_minor < 4096) gpu.render_minor = static_cast<int>(render_minor);
  if (unique_id != 0) gpu.uuid = fmt::format("GPU-{:016x}", unique_id);
  return gpu;
}

namespace {

struct IdRange {
  std::uint32_t first;
  std::uint32_t last;
};

template <std::size_t count>
bool is_in(const std::array<IdRange, count>& ranges, std::uint32_t id) {
  return std::ranges::any_of(ranges,
                             [&](const IdRange& range) { return range.first <= id && id <= range.last; });
}

// Reports whether it is a card and no processor's graphics: Vega 10 and 20 (MI25, MI50, MI60), Arcturus, Navi
// 2x to 4x. From the kernel's drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c.
bool is_amd_card(std::uint32_t device) {
  static constexpr std::array<IdRange, 6> k_ids{{{0x6860, 0x687f},
                                                 {0x66a0, 0x66af},
                                                 {0x7388, 0x738e},
                                                 {0x73a0, 0x73ff},
                                                 {0x7440, 0x749f},
                                                 {0x7550, 0x75af}}};
  return is_in(k_ids, device);
}

}  // namespace

std::optional<std::uint32_t> parse_pci_id(std::string_view text) {
  text = trim(text);
  if (!text.starts_with("0x") || text.size() < 3) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_intel_accelerator(std::uint32_t vendor, std::uint32_t device) {
  // PVC, DG2 with ATS-M, and BMG in the kernel's include/drm/intel/pciids.h; what is between is nothing else.
  static constexpr std::array<IdRange, 5> k_ids{
      {{0x0b69, 0x0b6e}, {0x0bd4, 0x0be5}, {0x4f80, 0x4f88}, {0x5690, 0x56c2}, {0xe202, 0xe223}}};
  return vendor == 0x8086 && is_in(k_ids, device);
}

int tiles_of_intel(std::uint32_t device) { return device >= 0x0bd5 && device <= 0x0bd8 ? 2 : 1; }

std::string gpu_vendor(std::uint32_t vendor) {
  return vendor == 0x10de ? "nvidia" : vendor == 0x1002 ? "amd" : vendor == 0x8086 ? "intel" : "";
}

std::optional<DeviceKind> judge_pci_device(std::uint32_t of_class, std::uint32_t vendor,
                                           std::uint32_t device) {
  // Network controllers of all kinds: Ethernet and Slingshot 0200, InfiniBand 0207, others 0280.
  if (of_class >> 8 == 0x02) return DeviceKind::network;
  const bool nvidia = vendor == 0x10de && (of_class == 0x0300 || of_class == 0x0302);
  // MI100 to MI250 are display controllers, MI300 is a processing accelerator, and cards with a connector or
  // older ones are what a processor's graphics are too: VGA controllers.
  const bool amd = vendor == 0x1002 &&
                   (of_class == 0x0380 || of_class == 0x1200 || (of_class == 0x0300 && is_amd_card(device)));
  if (nvidia || amd || is_intel_accelerator(vendor, device)) return DeviceKind::gpu;
  return std::nullopt;
}

}  // namespace ddprun::facts
