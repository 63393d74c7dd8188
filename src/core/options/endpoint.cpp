// Addresses as users write them.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "base/text.hpp"
#include "options/options.hpp"

namespace ddprun::options {

namespace {

constexpr std::size_t k_longest_host = 253;  // RFC 1035, 2.3.4, without the length bytes

bool is_host_name(std::string_view text) {
  return !text.empty() && text.size() <= k_longest_host && text.front() != '-' &&
         std::ranges::all_of(
             text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_'; });
}

bool is_hex_group(std::string_view group) {
  return !group.empty() && group.size() <= 4 &&
         std::ranges::all_of(group, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

bool is_ipv4(std::string_view text) {
  const std::vector<std::string> parts = split(text, '.');
  return parts.size() == 4 && std::ranges::all_of(parts, [](const std::string& part) {
           const auto number = parse_integer(part);
           return part.size() <= 3 && number && part.front() != '-' && *number <= 255;
         });
}

// Follows RFC 4291, 2.2, with an optional "%scope": eight groups, or fewer and one "::"; the last two may be
// IPv4.
bool is_ipv6(std::string_view text) {
  const std::size_t scope = text.find('%');
  if (scope != std::string_view::npos && !is_host_name(text.substr(scope + 1))) return false;
  text = text.substr(0, scope);
  const std::size_t gap = text.find("::");
  if (gap != std::string_view::npos && text.find("::", gap + 1) != std::string_view::npos) return false;
  std::size_t groups = 0;
  const auto count_groups = [&groups](std::string_view half) {
    if (half.empty()) return true;
    std::vector<std::string> parts = split(half, ':');
    if (is_ipv4(parts.back())) {
      parts.back() = "0";
      ++groups;
    }
    groups += parts.size();
    return std::ranges::all_of(parts, is_hex_group);
  };
  if (gap == std::string_view::npos) return count_groups(text) && groups == 8;
  return count_groups(text.substr(0, gap)) && count_groups(text.substr(gap + 2)) && groups <= 7;
}

UsageError not_an_address(const std::string& text, const std::string& origin) {
  return UsageError(fmt::format("{} is not an address: '{}'", origin, printable(text)),
                    "give HOST, HOST:PORT or, for IPv6 with a port, [ADDRESS]:PORT");
}

}  // namespace

Endpoint parse_endpoint(const std::string& text, const std::string& origin) {
  const std::string_view whole = trim(text);
  std::string_view host = whole;
  std::optional<std::string_view> port;
  const bool brackets = whole.starts_with('[');
  if (brackets) {
    const std::size_t close = whole.find(']');
    if (close == std::string_view::npos) throw not_an_address(text, origin);
    host = whole.substr(1, close - 1);
    const std::string_view rest = whole.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') throw not_an_address(text, origin);
    if (!rest.empty()) port = rest.substr(1);
  } else if (const std::size_t colon = whole.find(':');
             colon != std::string_view::npos && colon == whole.rfind(':')) {
    host = whole.substr(0, colon);
    port = whole.substr(colon + 1);
  }
  const bool colons = host.find(':') != std::string_view::npos;
  if (brackets || colons ? !is_ipv6(host) : !is_host_name(host)) throw not_an_address(text, origin);
  if (!port) return {std::string(host), std::nullopt};
  const auto number = parse_integer(*port);
  if (!number || *number < 0 || *number > 65535) {
    throw UsageError(fmt::format("{} has an invalid port: '{}'", origin, printable(text)),
                     "a port is a number from 0 to 65535");
  }
  return {std::string(host), static_cast<int>(*number)};
}

std::string parse_host(const std::string& text, const std::string& origin) {
  Endpoint endpoint = parse_endpoint(text, origin);
  if (endpoint.port) {
    throw UsageError(fmt::format("{} accepts no port: '{}'", origin, printable(text)),
                     fmt::format("give the address alone, {}", printable(endpoint.host)));
  }
  return endpoint.host;
}

}  // namespace ddprun::options
