#include "facts/proc_text.hpp"

#include <fmt/format.h>

#include <algorithm>
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

}  // namespace ddprun::facts
