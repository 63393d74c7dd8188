#include "facts/memory_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace ddprun::facts {

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

}  // namespace ddprun::facts
