#include "facts/python_facts.hpp"

#include <algorithm>
#include <cctype>

#include "base/text.hpp"

namespace ddprun::facts {

namespace {

constexpr std::size_t k_longest_version = 64;

bool is_version_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '+' || c == '-' || c == '_';
}

// Returns "3.11" for "3.11.2".
std::string major_and_minor(std::string_view version) {
  const std::size_t minor = version.find('.');
  if (minor == std::string_view::npos) return {};
  return std::string(version.substr(0, version.find('.', minor + 1)));
}

}  // namespace

std::optional<std::string> parse_python_name(std::string_view name) {
  constexpr std::string_view k_start = "python";
  if (!name.starts_with(k_start)) return std::nullopt;
  const std::string_view number = name.substr(k_start.size());
  const auto parts = split(number, '.');
  const auto is_number = [](const std::string& part) {
    return !part.empty() && part.size() < 4 && part.find_first_not_of("0123456789") == std::string::npos;
  };
  if (parts.size() != 2 || !std::ranges::all_of(parts, is_number)) return std::nullopt;
  return std::string(number);
}

std::optional<std::string> parse_torch_version(std::string_view text) {
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with("__version__")) continue;
    const std::size_t open = line.find_first_of("'\"");
    if (open == std::string::npos) return std::nullopt;
    const std::size_t close = line.find(line[open], open + 1);
    if (close == std::string::npos || close - open - 1 > k_longest_version) return std::nullopt;
    const std::string version = line.substr(open + 1, close - open - 1);
    const bool good = !version.empty() && std::ranges::all_of(version, is_version_character);
    return good ? std::optional(version) : std::nullopt;
  }
  return std::nullopt;
}

VirtualEnvironment parse_virtual_environment(std::string_view text) {
  VirtualEnvironment environment;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string_view key = trim(std::string_view(line).substr(0, equals));
    const std::string_view value = trim(std::string_view(line).substr(equals + 1));
    // venv writes version, virtualenv and uv version_info.
    if (key == "version" || key == "version_info") environment.version = major_and_minor(value);
    if (key == "include-system-site-packages") environment.system_packages = to_lower(value) == "true";
  }
  return environment;
}

}  // namespace ddprun::facts
