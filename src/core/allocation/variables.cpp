#include "allocation/variables.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

std::optional<Sourced<std::string>> Variables::text(const std::string& name) const {
  const auto found = environment_.find(name);
  if (found == environment_.end() || found->second.empty()) return std::nullopt;
  return sourced(found->second, name);
}

std::optional<Sourced<std::string>> Variables::text(const std::string& name, const std::string& older) const {
  auto value = text(name);
  return value ? value : text(older);
}

std::optional<Sourced<std::int64_t>> Variables::number(const std::string& name, std::int64_t least,
                                                       std::int64_t most) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  const auto parsed = parse_integer(value->value);
  if (!parsed || *parsed < least || *parsed > most) {
    throw Error(
        fmt::format("{}={} is not a number from {} to {}", name, printable(value->value, 80), least, most),
        "clear the variable if it was set manually");
  }
  return sourced(*parsed, name);
}

std::optional<Sourced<int>> Variables::count(const std::string& name, int least, int most) const {
  const auto value = number(name, least, most);
  return value ? std::optional(sourced(static_cast<int>(value->value), name)) : std::nullopt;
}

}  // namespace ddprun::allocation
