// Reading one JSON file strictly: every complaint names the file and the key.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"

namespace ddprun::facts {

// Any bytes as UTF-8 text and back, for formats that hold text only.

// Returns valid UTF-8 unchanged; each other byte as \xNN, and a backslash before an x as \x5c.
std::string escape_bytes(std::string_view bytes);
// Reverses it: unescape_bytes(escape_bytes(b)) == b for all b; a \x without two hexadecimal digits stays as
// it is.
std::string unescape_bytes(std::string_view text);

using Json = nlohmann::json;

// Source of the JSON, for complaints. Outlives its readers.
struct JsonSource {
  std::string name;  // "the snapshot x.json"
  std::string hint;
  // Throws Error "cannot use <name>: <why>".
  [[noreturn]] void refuse(const std::string& why) const;
};

// Parses with two rules the library does not have: no repeated keys, and no deep nesting.
Json parse_strictly(const std::string& json, const JsonSource& source);

// Reader of one object of the file: every key must be asked for, and others are unknown.
class JsonReader {
 public:
  JsonReader(const Json& object, const JsonSource& source, std::string path)
      : object_(object), source_(source), path_(std::move(path)) {
    if (!object_.is_object()) fail(path_.empty() ? "the whole file" : path_, "must be an object");
  }

  void read(const std::string& key, std::string& target) {
    if (const Json* value = find(key)) target = text(*value, name(key));
  }

  void read(const std::string& key, bool& target) {
    const Json* const value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) fail(name(key), "must be true or false");
    target = value->get<bool>();
  }

  template <class Number>
  void read_number(const std::string& key, Number& target, Number low = 0,
                   Number high = std::numeric_limits<Number>::max()) {
    const Json* const value = find(key);
    if (value == nullptr) return;
    if (!value->is_number_integer()) fail(name(key), "must be a whole number");
    const bool too_large =
        value->is_number_unsigned() &&
        value->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    const std::int64_t number = too_large ? -1 : value->get<std::int64_t>();
    if (too_large || number < low || number > high) {
      fail(name(key), fmt::format("must be between {} and {}", low, high));
    }
    target = static_cast<Number>(number);
  }

  void read(const std::string& key, std::optional<double>& target) {
    const Json* const value = find(key);
    if (value == nullptr) return;
    if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() <= 0) {
      fail(name(key), "must be a number above 0");
    }
    target = value->get<double>();
  }

  void read(const std::string& key, std::vector<std::string>& target) {
    each(key, [&](const Json& value, const std::string& where) { target.push_back(text(value, where)); });
  }

  void read(const std::string& key, std::map<std::string, std::string>& target) {
    each_member(key, [&](const std::string& member, const Json& value, const std::string& where) {
      if (!target.emplace(member, text(value, where)).second) fail(where, "appears twice");
    });
  }

  // Text that `parse` turns into the value, or else is "not <description>".
  template <class Value, class Parse>
  void read_as(const std::string& key, Value& target, Parse parse, const char* description) {
    const Json* const value = find(key);
    if (value == nullptr) return;
    auto parsed = parse(text(*value, name(key)));
    if (!parsed) fail(name(key), fmt::format("must be {}", description));
    target = std::move(*parsed);
  }

  // Calls use(value, "host.gpus[0]") for each element of an array.
  template <class Use>
  void each(const std::string& key, Use use) {
    const Json* const array = find(key);
    if (array == nullptr) return;
    if (!array->is_array()) fail(name(key), "must be an array");
    for (std::size_t i = 0; i < array->size(); ++i) use((*array)[i], fmt::format("{}[{}]", name(key), i));
  }

  // Calls use(member, value, "environment.PATH") for each member of an object.
  template <class Use>
  void each_member(const std::string& key, Use use) {
    const Json* const object = find(key);
    if (object == nullptr) return;
    if (!object->is_object()) fail(name(key), "must be an object");
    for (const auto& [member, value] : object->items()) {
      use(unescape_bytes(member), value, name(key) + "." + member);
    }
  }

  // Returns the object at `key`, or an empty one.
  JsonReader child(const std::string& key) {
    static const Json k_empty = Json::object();
    const Json* const value = find(key);
    return JsonReader(value == nullptr ? k_empty : *value, source_, name(key));
  }
  JsonReader element(const Json& value, const std::string& where) const {
    return JsonReader(value, source_, where);
  }

  bool has(const std::string& key) const { return object_.contains(key); }

  void finish() const {
    for (const auto& [key, value] : object_.items()) {
      if (known_.contains(key)) continue;
      const auto close = closest_match(key, {known_.begin(), known_.end()});
      fail(name(key), close ? fmt::format("is not known; did you mean {}?", *close) : "is not known");
    }
  }

  [[noreturn]] void fail(const std::string& where, const std::string& why) const {
    source_.refuse(fmt::format("{} {}", printable(where), why));
  }
  // Returns the path of one of its keys: "host.gpus".
  std::string name(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

 private:
  const Json* find(const std::string& key) {
    known_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  std::string text(const Json& value, const std::string& where) const {
    if (!value.is_string()) fail(where, "must be text");
    return unescape_bytes(value.get_ref<const std::string&>());
  }

  const Json& object_;
  const JsonSource& source_;
  std::string path_;
  std::set<std::string> known_;
};

}  // namespace ddprun::facts
