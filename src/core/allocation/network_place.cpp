#include "allocation/network_place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

constexpr std::size_t k_most_levels = 16;
constexpr std::size_t k_longest_path = 256;  // bytes

std::string key_of(std::string_view host) { return to_lower(short_host_name(host)); }

[[noreturn]] void fail(const std::string& source, std::size_t line, const std::string& why) {
  throw UsageError(fmt::format("{} {} in line {}", printable(source), why, line),
                   "give a host list a line, as in n[1-4], or one with its switches, as in n[1-4] s0/leaf1");
}

bool is_path(std::string_view text) {
  return text.size() <= k_longest_path &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < 127; });
}

// Removes the first run of digits behind the letter; true if there is one.
bool take_number(std::string_view& text, char letter) {
  if (text.empty() || text.front() != letter) return false;
  const std::size_t end = text.find_first_not_of("0123456789", 1);
  const std::size_t size = std::min(end, text.size());
  text.remove_prefix(size);
  return size > 1;
}

}  // namespace

std::string parse_topology_address(std::string_view address, std::string_view pattern) {
  const std::vector<std::string> names = split(address, '.'), kinds = split(pattern, '.');
  if (kinds.back() != "node" || names.size() < kinds.size() || !is_path(address)) return {};
  return join({names.begin(), names.begin() + static_cast<std::ptrdiff_t>(kinds.size()) - 1}, "/");
}

NetworkPlaces parse_shown_topology(std::string_view text) {
  std::map<std::string, std::string> above;   // switch, the one above it
  std::map<std::string, std::string> leaves;  // nodes, by leaf switch or block
  const auto expanded = [](const std::string& list) {
    return expand_hostlist(list, std::string(k_shown_topology));
  };
  NetworkPlaces places;
  try {
    for (const std::string& line : split(text, '\n')) {
      const std::vector<std::string> words = split_words(line);
      const auto value_of = [&words](std::string_view key) {
        const auto starts = [key](const std::string& word) { return word.starts_with(key); };
        const auto found = std::ranges::find_if(words, starts);
        return found == words.end() ? std::string() : found->substr(key.size());
      };
      const std::string block = value_of("BlockName="),
                        name = block.empty() ? value_of("SwitchName=") : block;
      if (name.empty()) continue;
      for (const std::string& below : expanded(value_of("Switches="))) above[below] = name;
      if (!block.empty() || value_of("Level=") == "0") leaves[name] = value_of("Nodes=");
    }
    for (const auto& [leaf, nodes] : leaves) {
      std::string path = leaf, name = leaf;
      for (std::size_t level = 0; level < k_most_levels && above.contains(name); ++level) {
        name = above.at(name);
        path = name + "/" + path;
      }
      if (!is_path(path)) continue;
      for (const std::string& node : expanded(nodes)) places[key_of(node)].switches = path;
    }
  } catch (const Error&) {
    return {};  // torn: of no use
  }
  return places;
}

NetworkPlaces parse_host_order(std::string_view text, const std::string& source) {
  NetworkPlaces places;
  std::optional<bool> with_paths;
  std::size_t number = 0;
  for (const std::string& whole : split(text, '\n')) {
    ++number;
    const std::string line(trim(std::string_view(whole).substr(0, whole.find('#'))));
    if (line.empty()) continue;
    const std::size_t blank = std::min(line.find_first_of(" \t"), line.size());
    const std::string path(trim(std::string_view(line).substr(blank)));
    if (!is_path(path)) fail(source, number, fmt::format("has a bad path '{}'", printable(path, 80)));
    if (with_paths.value_or(!path.empty()) == path.empty())
      fail(source, number,
           path.empty() ? "lacks the switches that other lines have"
                        : "has switches, which the lines before lack,");
    with_paths = !path.empty();
    std::vector<std::string> hosts;
    try {
      hosts = expand_hostlist(line.substr(0, blank), source);
    } catch (const Error& error) {
      fail(source, number, fmt::format("has a bad host list ({})", error.what()));
    }
    for (const std::string& host : hosts) {
      const int position = static_cast<int>(places.size());
      const bool added = places
                             .emplace(key_of(host), path.empty() ? NetworkPlace{position, {}, {}}
                                                                 : NetworkPlace{{}, path, {}})
                             .second;
      if (!added) fail(source, number, fmt::format("names {} again", printable(host, 80)));
    }
  }
  if (places.empty()) fail(source, number, "names no host up to its end");
  return places;
}

std::string find_cabinet(std::string_view host) {
  const std::string name = key_of(host);
  std::string_view rest = name;
  const bool chassis = take_number(rest, 'x') && take_number(rest, 'c');
  const std::string_view place = std::string_view(name).substr(0, name.size() - rest.size());
  if (!chassis || !take_number(rest, 's') || !take_number(rest, 'b') || !take_number(rest, 'n') ||
      !rest.empty())
    return {};
  const std::size_t c = place.find('c');
  return fmt::format("{}/{}", place.substr(0, c), place.substr(c));
}

}  // namespace ddprun::allocation
