// Fields of a JSON object, described once for both ways.
// The same calls write a record, or read and check what another program has written.
//
//   void describe_ending(JsonFields<nlohmann::json>& fields, Ending& ending) {
//     fields.value("signal", ending.signal, 1, k_highest_signal);
//     fields.value("host", ending.host);
//   }
//
// Writing cuts what is longer than its limit, checks nothing, and may use the record up. Reading keeps the
// first problem as text and leaves that value as it was, so that a description is a plain list; who reads
// must look at the problem before using the record.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "base/json_text.hpp"

namespace ddprun {

// `Json`: nlohmann::json, whose fields are sorted, or nlohmann::ordered_json, where they stand as described.
template <class Json>
class JsonFields {
 public:
  static constexpr std::size_t k_unlimited = std::numeric_limits<std::size_t>::max();

  template <class Record>
  using Describe = void (*)(JsonFields& fields, std::type_identity_t<Record>& record);

  // Writes to `json`. A text for which no limit is given has at most `max_text` bytes.
  JsonFields(Json& json, std::size_t max_text) : to_(&json), max_text_(max_text) { begin_object(); }
  JsonFields(const Json& json, std::string& problem, std::size_t max_text)
      : from_(&json), problem_(&problem), max_text_(max_text) {
    begin_object();
  }

  bool writes() const { return to_ != nullptr; }
  bool good() const { return writes() || problem_->empty(); }
  // Notes a problem unless `good`. `what` follows the name: "is out of range". Returns `good`.
  bool check(bool good, const char* name, const char* what) {
    if (!good) note(fmt::format("\"{}\" {}", name, what));
    return good;
  }
  // Reports whether an optional field is there. `told`: whether it is to be written.
  bool has(const char* name, bool told) const { return writes() ? told : from_->contains(name); }

  // The limits that follow a value:
  //   text                  most bytes
  //   whole number, id      least, most; else it is not below 0
  //   milliseconds          least, most
  //   enumeration           its last value
  //   list                  most items; then the limits of an item
  //   record                its description
  template <class Value, class... Limits>
  void value(const char* name, Value& value, Limits... limits) {
    at(name).exchange(value, limits...);
  }
  // Left out where there is none, or where it is as a new one is.
  template <class Value, class... Limits>
  void optional(const char* name, std::optional<Value>& known, Limits... limits) {
    if (has(name, known.has_value())) value(name, known ? *known : known.emplace(), limits...);
  }
  template <class Value, class... Limits>
  void optional(const char* name, Value& known, Limits... limits) {
    unless(Value{}, name, known, limits...);
  }
  template <class Value, class... Limits>
  void unless(const Value& absent, const char* name, Value& known, Limits... limits) {
    if (has(name, known != absent)) value(name, known, limits...);
  }
  // Describes a time as seconds with a fraction.
  void seconds(const char* name, Milliseconds& time) {
    double number = static_cast<double>(time.count()) / 1000;
    value(name, number);
    if (check(number >= 0 && number < k_latest, name, "is out of range"))
      time = Milliseconds{std::llround(number * 1000)};
  }
  void seconds(const char* name, std::optional<Milliseconds>& time) {
    if (has(name, time.has_value())) seconds(name, time ? *time : time.emplace());
  }

  // Rows of counts: cells_of(row) is where they are, std::vector{&range.first, &range.last}.
  template <class Row, class CellsOf>
  void rows(const char* name, std::vector<Row>& rows, std::size_t limit, const CellsOf& cells_of) {
    at(name).list(rows, 0, limit, [&](JsonFields field, Row& row) {
      std::vector<int*> cells = cells_of(row);
      const auto each = [](JsonFields cell, int* count) { cell.exchange_count(*count); };
      field.list(cells, cells.size(), cells.size(), each, k_wrong_width);
    });
  }
  // Describes exactly `count` rows of 1 to `width` texts.
  void text_rows(const char* name, std::vector<std::vector<std::string>>& rows, std::size_t count,
                 std::size_t width) {
    at(name).list(rows, count, count, [width](JsonFields field, std::vector<std::string>& row) {
      const auto each = [](JsonFields cell, std::string& text) { cell.exchange(text); };
      field.list(row, 1, width, each, k_wrong_width);
    });
  }
  // Takes back what was written where it needs more bytes.
  void drop_longer(const char* name, std::size_t bytes) {
    if (writes() && write_json_text((*to_)[name]).size() > bytes) to_->erase(name);
  }

 private:
  static inline const Json k_nothing;
  static constexpr const char* k_wrong_width = "has a row of wrong width";
  static constexpr double k_latest = 1e12;  // seconds
  // Bytes that are not UTF-8 travel as the three bytes of U+FFFD.
  static constexpr std::size_t k_replacement_growth = 3;

  JsonFields(const JsonFields& whole, const char* name, Json* to, const Json* from)
      : to_(to), from_(from), problem_(whole.problem_), max_text_(whole.max_text_), name_(name) {}

  void note(const std::string& problem) {
    if (!writes() && good()) *problem_ = problem;
  }
  void begin_object() {
    if (writes()) *to_ = Json::object();
    if (!writes() && !from_->is_object()) note("not an object");
  }

  // Returns the fields for one value of the object, or of a list.
  JsonFields at(const char* name) {
    if (writes()) return {*this, name, &(*to_)[name], &k_nothing};
    const auto found = from_->find(name);
    const bool here = check(found != from_->end(), name, "is missing");
    return {*this, name, nullptr, here ? &*found : &k_nothing};
  }
  JsonFields item(std::size_t index) const {
    if (writes()) return {*this, name_, &(*to_)[index], &k_nothing};
    return {*this, name_, nullptr, &(*from_)[index]};
  }

  // Writes or reads the value if it has the right kind; else notes `problem`.
  template <class Value>
  void exchange_as(Value& value, bool right_kind, const char* problem) {
    if (writes())
      *to_ = value;
    else if (check(right_kind, name_, problem))
      value = from_->template get<Value>();
  }
  void exchange(bool& flag) { exchange_as(flag, from_->is_boolean(), "is neither true nor false"); }
  void exchange(double& number) { exchange_as(number, from_->is_number(), "is not a number"); }

  void exchange(std::string& text) { exchange(text, max_text_); }
  void exchange(std::string& text, std::size_t limit) {
    if (writes()) {
      *to_ = text.substr(0, limit);
    } else if (check(from_->is_string(), name_, "is not a string")) {
      const auto& found = from_->template get_ref<const std::string&>();
      const bool fits = found.size() <= limit || found.size() <= limit * k_replacement_growth;
      if (check(fits, name_, "is too long")) text = found;
    }
  }

  template <std::integral Number>
  void exchange(Number& number, std::int64_t least = 0,
                std::int64_t most = std::numeric_limits<std::int64_t>::max(), const char* problem = nullptr) {
    if (writes()) {
      *to_ = number;
      return;
    }
    check(from_->is_number_integer(), name_, problem != nullptr ? problem : "is not a whole number");
    const auto found = whole_number<Number>(*from_);
    const bool fits = found && std::cmp_greater_equal(*found, least) && std::cmp_less_equal(*found, most);
    if (check(fits, name_, problem != nullptr ? problem : "is out of range")) number = *found;
  }
  void exchange_count(int& count) { exchange(count, 0, std::numeric_limits<int>::max(), "is out of range"); }
  template <class Tag, class... Limits>
  void exchange(Id<Tag>& id, Limits... limits) {
    exchange(id.value, limits...);
  }
  template <class... Limits>
  void exchange(Milliseconds& time, Limits... limits) {
    auto count = time.count();
    exchange(count, limits...);
    time = Milliseconds{count};
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void exchange(Enum& choice, Enum last) {
    auto number = static_cast<int>(choice);
    exchange(number, 0, static_cast<int>(last));
    choice = static_cast<Enum>(number);
  }

  template <class Record>
  void exchange(Record& record, Describe<Record> describe) {
    begin_object();
    describe(*this, record);
  }
  void exchange(std::vector<int>& counts, std::integral auto limit) {
    const auto each = [](JsonFields field, int& count) { field.exchange_count(count); };
    list(counts, 0, static_cast<std::size_t>(limit), each);
  }
  template <class Item, class... Limits>
  void exchange(std::vector<Item>& items, std::integral auto limit, Limits... limits) {
    const auto each = [&](JsonFields field, Item& item) { field.exchange(item, limits...); };
    list(items, 0, static_cast<std::size_t>(limit), each);
  }
  // `problem` takes the place of any other of the list itself.
  template <class Item, class Each>
  void list(std::vector<Item>& items, std::size_t least, std::size_t most, const Each& each,
            const char* problem = nullptr) {
    if (writes()) {
      *to_ = Json::array();
      items.resize(std::min(items.size(), most));
    } else {
      const std::size_t size = from_->size();
      check(from_->is_array(), name_, problem != nullptr ? problem : "is not a list");
      check(size <= most, name_, problem != nullptr ? problem : "is too long");
      check(size >= least, name_, problem != nullptr ? problem : "is too short");
      items.resize(good() ? size : 0);
    }
    for (std::size_t i = 0; i < items.size(); ++i) each(item(i), items[i]);
  }

  Json* to_ = nullptr;
  const Json* from_ = &k_nothing;
  std::string* problem_ = nullptr;
  std::size_t max_text_;
  const char* name_ = "";
};

using OrderedFields = JsonFields<nlohmann::ordered_json>;

// Writes whole records, whose texts have no limits of their own, as JSON, and reads them back if nothing is
// wrong with it.
template <class Record>
nlohmann::ordered_json write_fields(Record record, OrderedFields::Describe<Record> describe) {
  nlohmann::ordered_json json;
  OrderedFields fields(json, OrderedFields::k_unlimited);
  describe(fields, record);
  return json;
}
template <class Record>
std::optional<Record> read_fields(const nlohmann::ordered_json& json,
                                  OrderedFields::Describe<Record> describe) {
  std::string problem;
  OrderedFields fields(json, problem, OrderedFields::k_unlimited);
  Record record;
  describe(fields, record);
  return problem.empty() ? std::optional(std::move(record)) : std::nullopt;
}

}  // namespace ddprun
