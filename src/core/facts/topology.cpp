#include "facts/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.hpp"

namespace ddprun::facts {

namespace {

// Takes hexadecimal digits and the separator behind them from the front of `text`.
std::optional<unsigned> take_hexadecimal(std::string_view& text, std::size_t most_digits, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view digits = text.substr(0, end);
  if (end == std::string_view::npos || digits.empty() || digits.size() > most_digits) return std::nullopt;
  unsigned value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size()) return std::nullopt;
  text.remove_prefix(end + 1);
  return value;
}

}  // namespace

Topology make_flat_topology(const std::vector<int>& cpus) {
  Topology topology;
  topology.source = "affinity mask alone";
  for (const int cpu : cpus) topology.cores.push_back({{cpu}, 0, 0, 0});
  topology.nodes.push_back({0, cpus, 0});
  return topology;
}

std::vector<int> all_cpus(const Topology& topology) {
  std::vector<int> cpus;
  for (const Core& core : topology.cores) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  std::ranges::sort(cpus);
  return cpus;
}

std::string normal_pci_address(const std::string& address) {
  const std::string ended = address + ".";
  std::string_view rest = ended;
  const auto colons = std::ranges::count(address, ':');
  const auto domain = colons == 2 ? take_hexadecimal(rest, 8, ':') : std::optional(0U);
  const auto bus = take_hexadecimal(rest, 2, ':');
  const auto device = take_hexadecimal(rest, 2, '.');
  const auto function = take_hexadecimal(rest, 1, '.');
  if (!domain || !bus || !device || !function || !rest.empty()) return address;
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", *domain, *bus, *device, *function);
}

}  // namespace ddprun::facts
