// Reads checked fields of a JSON object. The first problem is kept as text and the value read is a harmless
// default, so that a reader is a plain list of fields; who reads must look at the problem before using it.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rendezvous/codec.hpp"

namespace ddprun::rendezvous {

class Fields {
 public:
  // Both must outlive this.
  Fields(const nlohmann::json& json, std::string& problem) : json_(json), problem_(problem) {
    if (!json.is_object()) fail("not an object");
  }

  bool has(const char* name) const { return json_.is_object() && json_.contains(name); }

  std::int64_t integer64(const char* name,
                         std::int64_t least = std::numeric_limits<std::int64_t>::min()) const {
    const nlohmann::json& value = at(name);
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{k_max_integer}) {
      return fail(fmt::format("\"{}\" is out of range", name)), 0;
    }
    if (!value.is_number_integer()) return fail(fmt::format("\"{}\" is not a whole number", name)), 0;
    if (value.get<std::int64_t>() < least) return fail(fmt::format("\"{}\" is out of range", name)), 0;
    return value.get<std::int64_t>();
  }

  int integer(const char* name, std::int64_t least = std::numeric_limits<int>::min(),
              std::int64_t most = std::numeric_limits<int>::max()) const {
    const std::int64_t value = integer64(name);
    if (value < least || value > most) return fail(fmt::format("\"{}\" is out of range", name)), 0;
    return static_cast<int>(value);
  }

  int count(const char* name) const { return integer(name, 0, k_max_count); }

  bool flag(const char* name) const {
    const nlohmann::json& value = at(name);
    if (!value.is_boolean()) return fail(fmt::format("\"{}\" is neither true nor false", name)), false;
    return value.get<bool>();
  }

  std::string text(const char* name, std::size_t limit = k_max_text) const {
    return text_of(at(name), name, limit);
  }

  std::vector<std::string> texts(const char* name, std::size_t limit) const {
    std::vector<std::string> result;
    for (const nlohmann::json& item : list(name, limit)) result.push_back(text_of(item, name, k_max_text));
    return result;
  }

  // Exactly `count` rows of 1 to `width` texts.
  std::vector<std::vector<std::string>> text_rows(const char* name, std::size_t count,
                                                  std::size_t width) const {
    std::vector<std::vector<std::string>> result;
    const nlohmann::json& rows = list(name, count);
    if (rows.size() < count) return fail(fmt::format("\"{}\" is too short", name)), result;
    for (const nlohmann::json& row : rows) {
      if (!row.is_array() || row.empty() || row.size() > width) {
        return fail(fmt::format("\"{}\" has a row of wrong width", name)), decltype(result){};
      }
      std::vector<std::string>& texts = result.emplace_back();
      for (const nlohmann::json& item : row) texts.push_back(text_of(item, name, k_max_text));
    }
    return result;
  }

  std::vector<int> ports(const char* name, std::size_t limit) const {
    std::vector<int> result;
    for (const nlohmann::json& item : list(name, limit)) {
      const auto port = item.is_number_unsigned() ? item.get<std::uint64_t>() : 0;
      if (port < 1 || port > 65535) return fail(fmt::format("\"{}\" has an invalid port", name)), result;
      result.push_back(static_cast<int>(port));
    }
    return result;
  }

  std::vector<int> counts(const char* name, std::size_t limit) const {
    std::vector<int> result;
    for (const nlohmann::json& item : list(name, limit)) {
      const auto value = item.is_number_unsigned() ? item.get<std::uint64_t>() : k_max_count + 1ULL;
      if (value > std::uint64_t{k_max_count})
        return fail(fmt::format("\"{}\" is out of range", name)), result;
      result.push_back(static_cast<int>(value));
    }
    return result;
  }

  Fields object(const char* name) const { return {at(name), problem_}; }

  std::vector<Fields> objects(const char* name, std::size_t limit) const {
    std::vector<Fields> result;
    for (const nlohmann::json& item : list(name, limit)) result.emplace_back(item, problem_);
    return result;
  }

  // A list of rows of `Width` counts each.
  template <std::size_t Width>
  std::vector<std::array<int, Width>> rows(const char* name, std::size_t limit) const {
    std::vector<std::array<int, Width>> result;
    for (const nlohmann::json& item : list(name, limit)) {
      if (!item.is_array() || item.size() != Width) {
        fail(fmt::format("\"{}\" has a row of wrong width", name));
        return {};
      }
      std::array<int, Width>& row = result.emplace_back();
      for (std::size_t i = 0; i < Width; ++i) {
        const auto value = item[i].is_number_unsigned() ? item[i].get<std::uint64_t>() : k_max_count + 1ULL;
        if (value > std::uint64_t{k_max_count}) fail(fmt::format("\"{}\" is out of range", name));
        row[i] = static_cast<int>(value & std::uint64_t{k_max_count});
      }
    }
    return result;
  }

  void fail(const std::string& what) const {
    if (problem_.empty()) problem_ = what;
  }

 private:
  static constexpr int k_max_count = std::numeric_limits<int>::max();
  static constexpr std::int64_t k_max_integer = std::numeric_limits<std::int64_t>::max();
  // Bytes that are not UTF-8 travel as the three bytes of U+FFFD.
  static constexpr std::size_t k_replacement_growth = 3;

  const nlohmann::json& at(const char* name) const {
    static const nlohmann::json k_nothing;
    if (has(name)) return json_.at(name);
    fail(fmt::format("\"{}\" is missing", name));
    return k_nothing;
  }

  const nlohmann::json& list(const char* name, std::size_t limit) const {
    static const nlohmann::json k_empty = nlohmann::json::array();
    const nlohmann::json& value = at(name);
    if (!value.is_array()) return fail(fmt::format("\"{}\" is not a list", name)), k_empty;
    if (value.size() > limit) return fail(fmt::format("\"{}\" is too long", name)), k_empty;
    return value;
  }

  std::string text_of(const nlohmann::json& value, const char* name, std::size_t limit) const {
    if (!value.is_string()) return fail(fmt::format("\"{}\" is not a string", name)), std::string();
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() > limit * k_replacement_growth) {
      return fail(fmt::format("\"{}\" is too long", name)), std::string();
    }
    return text;
  }

  const nlohmann::json& json_;
  std::string& problem_;
};

}  // namespace ddprun::rendezvous
