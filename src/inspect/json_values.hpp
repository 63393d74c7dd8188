// Values of an object that a worker has written: what is missing, or of another kind, is as if it were empty.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json_number.hpp"

namespace ddprun::inspect {

inline constexpr std::size_t k_most_text = 4096;  // bytes of one text

inline std::string text_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>().substr(0, k_most_text)
                                                     : std::string();
}

// Negative ones are wrong too: they count, and have no place in a status.
template <class Number = std::int64_t>
Number number_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() ? std::max(whole_number<Number>(*found).value_or(0), Number{0}) : Number{0};
}

inline bool flag_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

}  // namespace ddprun::inspect
