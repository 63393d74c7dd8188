#include "facts/json_reader.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ddprun::facts {

void JsonSource::refuse(const std::string& why) const {
  throw UsageError(fmt::format("cannot use {}: {}", name, why), hint);
}

namespace {

// Hears the parser. The library's callback for a parser that builds a value looks, at the end of each object
// in an array, through all that came before it: a file of a few MiB would take minutes.
class StrictRules {
 public:
  explicit StrictRules(const JsonSource& source) : source_(source) {}

  bool null() { return value(); }
  bool boolean(bool) { return value(); }
  bool number_integer(Json::number_integer_t) { return value(); }
  bool number_unsigned(Json::number_unsigned_t) { return value(); }
  bool number_float(Json::number_float_t, const std::string&) { return value(); }
  bool string(std::string&) { return value(); }
  bool binary(Json::binary_t&) { return value(); }
  bool start_array(std::size_t) { return open(); }
  bool end_array() { return close(); }
  bool start_object(std::size_t) {
    keys_.emplace_back();
    return open();
  }
  bool key(std::string& key) {
    if (!keys_.back().insert(key).second) source_.refuse(printable(key) + " appears twice");
    return value();
  }
  bool end_object() {
    keys_.pop_back();
    return close();
  }
  // The parser that builds the value says it.
  bool parse_error(std::size_t, const std::string&, const Json::exception&) { return false; }

 private:
  static constexpr int k_deepest = 8;

  bool value() const {
    if (depth_ > k_deepest) source_.refuse("it is nested too deeply");
    return true;
  }
  bool open() {
    value();
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  const JsonSource& source_;
  std::vector<std::set<std::string>> keys_;
  int depth_ = 0;
};

}  // namespace

Json parse_strictly(const std::string& json, const JsonSource& source) {
  StrictRules rules(source);
  Json::sax_parse(json, &rules);
  try {
    return Json::parse(json);
  } catch (const Json::parse_error& error) {
    const auto end = json.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, json.size()));
    source.refuse(fmt::format("line {} is not JSON", 1 + std::count(json.begin(), end, '\n')));
  } catch (const Json::exception&) {
    source.refuse("it holds a number that is too large");
  }
}

}  // namespace ddprun::facts
