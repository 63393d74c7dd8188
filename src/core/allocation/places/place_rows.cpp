#include "allocation/places/place_rows.hpp"

#include <fmt/format.h>

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
