// JSON as text and back, by the library in one file only; whole numbers of JSON from outside.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun {

// Whole numbers in JSON from outside.
// The library's own get() converts: 1e67 to an int is undefined, 4294967296 is 0 and -1 becomes a huge one.

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

// Reads JSON. Returns a discarded value (is_discarded(), no object and no array) if the text is not JSON or
// has a number that is too large; throws nothing.
nlohmann::json read_json_text(std::string_view text);
nlohmann::ordered_json read_ordered_json_text(std::string_view text);

// Writes JSON as text; bytes that are not UTF-8 are replaced by U+FFFD. Without an indent it is one line; no
// line end in either case.
std::string write_json_text(const nlohmann::json& json, int indent = -1);
std::string write_json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace ddprun
