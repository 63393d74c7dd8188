#include "facts/proc_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "base/text.hpp"

namespace ddprun::facts {

namespace {

// Parses a decimal number without sign, at most `limit`.
std::optional<int> parse_below(std::string_view text, int limit) {
  const auto number = parse_integer(text);
  if (!number || *number < 0 || *number > limit) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<double> divide(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  text = trim(text);
  if (text.empty()) return cpus;
  for (const std::string& part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = parse_below(std::string_view(part).substr(0, dash), k_highest_cpu);
    const auto last = dash == std::string::npos
                          ? first
                          : parse_below(std::string_view(part).substr(dash + 1), k_highest_cpu);
    if (!first || !last || *last < *first) return std::nullopt;
    if (!cpus.empty() && *first <= cpus.back()) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::string render_cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    text += fmt::format("{}{}", i == 0 ? "" : ",", cpus[i]);
    if (end - i > 1) text += fmt::format("-{}", cpus[end - 1]);
    i = end;
  }
  return text;
}

std::optional<Binding> parse_numa_maps(std::string_view head) {
  constexpr std::string_view k_many = "prefer (many)";  // one of the kernel's names holds a blank
  const std::size_t start = head.find(' ');
  if (start == std::string_view::npos) return std::nullopt;
  const std::string_view policy = head.substr(start + 1);
  const std::size_t name_end = policy.find_first_of(" =:\n", policy.starts_with(k_many) ? k_many.size() : 0);
  const std::string_view name = policy.substr(0, name_end);
  Binding binding;
  if (name == "prefer" || name == k_many) binding.policy = MemoryPolicy::preferred;
  if (name == "bind") binding.policy = MemoryPolicy::bind;
  if (binding.policy == MemoryPolicy::untouched) return binding;
  // "=static" and "=relative" may stand before the nodes.
  const std::string_view rest =
      policy.substr(name.size(), policy.find_first_of(" \n", name.size()) - name.size());
  const std::size_t colon = rest.find(':');
  const auto nodes = colon == std::string_view::npos ? std::nullopt : parse_cpu_list(rest.substr(colon + 1));
  if (!nodes || nodes->empty()) return std::nullopt;
  binding.memory_nodes = *nodes;
  return binding;
}

std::optional<std::vector<int>> parse_allowed_memory_nodes(std::string_view status) {
  static constexpr std::string_view k_key = "Mems_allowed_list:";
  for (const std::string& line : split(status, '\n')) {
    if (line.starts_with(k_key)) return parse_cpu_list(std::string_view(line).substr(k_key.size()));
  }
  return std::nullopt;
}

std::optional<int> parse_tracer_pid(std::string_view status) {
  static constexpr std::string_view k_key = "TracerPid:";
  for (const std::string& line : split(status, '\n')) {
    if (line.starts_with(k_key))
      return parse_below(trim(std::string_view(line).substr(k_key.size())), 1 << 30);
  }
  return std::nullopt;
}

bool has_signal(std::string_view status, std::string_view mask, int signal) {
  for (const std::string& line : split(status, '\n')) {
    if (!line.starts_with(mask)) continue;
    const std::string_view digits = trim(std::string_view(line).substr(mask.size()));
    std::uint64_t signals = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), signals, 16);
    return signal >= 1 && signal <= 64 && (signals >> (signal - 1) & 1U) != 0;
  }
  return false;
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const std::vector<std::string> words = split_words(text);
  if (words.size() != 2) return std::nullopt;
  return divide(parse_integer(words[0]), parse_integer(words[1]));
}

std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period) {
  return divide(parse_integer(trim(quota)), parse_integer(trim(period)));
}

CgroupPaths parse_cgroups(std::string_view text) {
  CgroupPaths paths;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty() && line.starts_with("0:")) paths.unified = path;
    const std::vector<std::string> names = split(controllers, ',');
    if (std::ranges::find(names, "cpu") == names.end()) continue;
    paths.cpu = path;
    paths.cpu_controllers = controllers;
  }
  return paths;
}

std::optional<std::pair<int, int>> parse_port_range(std::string_view text) {
  const std::vector<std::string> words = split_words(text);
  if (words.size() != 2) return std::nullopt;
  const auto low = parse_below(words[0], 65535);
  const auto high = parse_below(words[1], 65535);
  if (!low || !high || *low > *high) return std::nullopt;
  return std::pair(*low, *high);
}

std::optional<int> parse_parent_pid(std::string_view stat) {
  const std::size_t end_of_name = stat.rfind(')');
  if (end_of_name == std::string_view::npos) return std::nullopt;
  const std::vector<std::string> words = split_words(stat.substr(end_of_name + 1));
  if (words.size() < 2) return std::nullopt;
  return parse_below(words[1], 1 << 30);
}

std::string parse_title(std::string_view cmdline) {
  std::string title(cmdline.substr(0, 1000));
  std::ranges::replace(title, '\0', ' ');
  return std::string(trim(title));
}

namespace {

constexpr std::uint64_t k_no_limit = std::uint64_t{1} << 60U;  // version 1 writes its highest number

// Returns the number behind the name in a line that begins with it.
std::optional<std::int64_t> find_number(std::string_view text, std::string_view name) {
  for (const std::string& line : split(text, '\n')) {
    const auto words = split_words(line);
    if (words.size() >= 2 && words[0] == name) return parse_integer(words[1]);
  }
  return std::nullopt;
}

}  // namespace

std::optional<MemoryGroup> parse_memory_group(std::string_view proc_cgroup) {
  std::optional<MemoryGroup> found;
  for (const std::string& line : split(proc_cgroup, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    for (const std::string& controller : split(controllers, ',')) {
      if (controller == "memory") return MemoryGroup{"/sys/fs/cgroup/memory" + path, false};
    }
    if (controllers.empty()) found = MemoryGroup{"/sys/fs/cgroup" + path, true};
  }
  return found;
}

std::optional<std::int64_t> parse_oom_kills(std::string_view text) { return find_number(text, "oom_kill"); }

std::string describe_bytes(std::uint64_t bytes) {
  constexpr std::array k_units = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < k_units.size(); ++unit) value /= 1024;
  return unit < 3 ? fmt::format("{:.0f} {}", value, k_units[unit])
                  : fmt::format("{:.1f} {}", value, k_units[unit]);
}

std::optional<std::uint64_t> parse_memory_limit(std::string_view text) {
  const auto bytes = parse_integer(trim(text));
  if (!bytes || *bytes <= 0 || static_cast<std::uint64_t>(*bytes) >= k_no_limit) return std::nullopt;
  return static_cast<std::uint64_t>(*bytes);
}

std::optional<std::uint64_t> parse_kibibytes(std::string_view text, std::string_view name) {
  const auto kibibytes = find_number(text, name);
  if (!kibibytes || *kibibytes <= 0) return std::nullopt;
  return static_cast<std::uint64_t>(*kibibytes) * 1024;
}

std::uint64_t parse_inactive_file(std::string_view memory_stat) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(find_number(memory_stat, "inactive_file").value_or(0), 0));
}

std::string describe_memory_limit(std::string_view text) {
  const auto bytes = parse_memory_limit(text);
  return bytes ? describe_bytes(*bytes) : std::string();
}

bool tells_oom_kill(std::string_view kernel_log_record, int pid) {
  return kernel_log_record.find(fmt::format("Killed process {} (", pid)) != std::string_view::npos;
}

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
