#include "allocation/places/place_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation::place_rows {

std::optional<Sourced<int>> read_count(const Variables& variables, const std::string& name) {
  return variables.count(name, 1, k_max_hosts);
}

std::optional<Sourced<int>> read_index(const Variables& variables, const std::string& name) {
  return variables.count(name, 0, k_max_hosts);
}

std::optional<Sourced<int>> read_workers(const Variables& variables, const std::string& name) {
  const auto text = name.empty() ? std::nullopt : variables.text(name);
  const auto number = text ? parse_integer(text->value) : std::nullopt;
  if (!number || *number < 1 || *number > k_most) return std::nullopt;
  return sourced(static_cast<int>(*number), name);
}

std::optional<Sourced<int>> read_port(const Variables& variables, const std::string& name) {
  const auto text = name.empty() ? std::nullopt : variables.text(name);
  const auto port = text ? parse_integer(trim(split(text->value, ',').front())) : std::nullopt;
  if (!port || *port < 1 || *port > 65535) return std::nullopt;
  return sourced(static_cast<int>(*port), name);
}

std::optional<Sourced<int>> find_node_count(const Variables& variables) {
  for (const char* name : {"NNODES", "NUM_NODES", "NODE_COUNT", "NODE_NUM"}) {
    const auto count = variables.text(name);
    const auto number = count ? parse_integer(count->value) : std::nullopt;
    if (number && *number > 0 && *number <= static_cast<std::int64_t>(k_max_hosts))
      return sourced(static_cast<int>(*number), name);
  }
  return std::nullopt;
}

FoundPlace make_place(const char* name, const std::string& mark, const Sourced<int>& nodes) {
  FoundPlace place;
  place.name = sourced(std::string(name), mark);
  place.nodes = nodes;
  return place;
}

void refuse_half_set(const std::string& mark, const std::string& missing) {
  throw Error(fmt::format("{} is set, but {} is not", mark, missing),
              "give --nnodes, --node-rank and --master-addr; to use this host alone, add --nnodes 1");
}

}  // namespace ddprun::allocation::place_rows

namespace ddprun::allocation {

namespace {

bool is_ipv6_text(std::string_view text) {
  return std::count(text.begin(), text.end(), ':') > 1 &&
         text.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

std::optional<int> parse_host_port(std::string_view text) {
  const auto port = parse_integer(text);
  if (!port || *port < 1 || *port > 65535) return std::nullopt;
  return static_cast<int>(*port);
}

std::optional<HostText> with_port(std::string_view host, std::string_view port) {
  const auto number = parse_host_port(port);
  if (!number) return std::nullopt;
  return HostText{std::string(host), number};
}

std::optional<HostText> parse_bracketed(std::string_view text) {
  const std::size_t end = text.find(']');
  if (end == std::string_view::npos || !is_ipv6_text(text.substr(1, end - 1))) return std::nullopt;
  const std::string_view host = text.substr(1, end - 1);
  const std::string_view rest = text.substr(end + 1);
  if (rest.empty()) return HostText{std::string(host), std::nullopt};
  return rest.front() == ':' ? with_port(host, rest.substr(1)) : std::nullopt;
}

}  // namespace

std::optional<HostText> parse_host_text(std::string_view text) {
  text = trim(text);
  if (text.empty()) return std::nullopt;
  if (text.front() == '[') return parse_bracketed(text);
  if (is_ipv6_text(text)) return HostText{std::string(text), std::nullopt};
  const std::string_view host = text.substr(0, text.find(':'));
  if (!is_host_name(host)) return std::nullopt;
  if (host.size() == text.size()) return HostText{std::string(host), std::nullopt};
  return with_port(host, text.substr(host.size() + 1));
}

HostText read_host_text(std::string_view text, const std::string& origin) {
  if (auto host = parse_host_text(text)) return *host;
  throw Error(
      fmt::format("{} names no host: '{}'", origin, printable(text, 80)),
      "unset the variable if it was set manually; --nnodes, --node-rank and --master-addr replace it");
}

Sourced<std::vector<std::string>> read_host_list(const Sourced<std::string>& list, char separator) {
  Sourced<std::vector<std::string>> hosts{{}, list.origin};
  for (const std::string& entry : split(list.value, separator)) {
    if (trim(entry).empty()) continue;
    hosts.value.push_back(read_host_text(entry, list.origin).host);
    if (hosts.value.size() > k_max_hosts)
      throw Error(fmt::format("{} names more than {} hosts", list.origin, k_max_hosts));
  }
  return hosts;
}

}  // namespace ddprun::allocation
