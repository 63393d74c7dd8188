// Failures as JSON, and what the codec's other messages share with them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddprun/rendezvous/codec.hpp"
#include "json_fields.hpp"

namespace ddprun {

inline constexpr int k_highest_signal = 64;
inline constexpr int k_highest_exit_code = 255;

inline std::string cut(const std::string& text, std::size_t limit = k_max_text) {
  return text.substr(0, limit);
}

template <class T>
std::vector<T> first_of(const std::vector<T>& items, std::size_t limit) {
  return {items.begin(), items.begin() + static_cast<std::ptrdiff_t>(std::min(items.size(), limit))};
}

nlohmann::json texts_to_json(const std::vector<std::string>& texts, std::size_t limit);

nlohmann::json first_failure(const Failure& failure);
nlohmann::json further_failures(const std::vector<Failure>& failures);
Failure read_first_failure(const Fields& fields);
std::vector<Failure> read_further_failures(const Fields& fields, const char* name);
void check_is_failure(const Fields& fields, const Failure& failure);

}  // namespace ddprun
