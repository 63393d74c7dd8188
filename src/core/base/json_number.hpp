// Whole numbers in JSON from outside.
// The library's own get() converts: 1e67 to an int is undefined, 4294967296 is 0 and -1 becomes a huge one.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace ddprun {

// Returns nullopt for a value that is no whole number or does not fit. `Json`: any of the library's kinds.
template <class Number, class Json>
std::optional<Number> whole_number(const Json& value) {
  const auto fitting = [](auto number) {
    return std::in_range<Number>(number) ? std::optional(static_cast<Number>(number)) : std::nullopt;
  };
  if (value.is_number_unsigned()) return fitting(value.template get<std::uint64_t>());
  if (value.is_number_integer()) return fitting(value.template get<std::int64_t>());
  return std::nullopt;
}

}  // namespace ddprun
