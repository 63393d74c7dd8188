#include "facts/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/text.hpp"

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

std::string escape_bytes(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = bytes.starts_with("\\x") ? 0 : utf8_length(bytes);
    if (length == 0) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    text += bytes.substr(0, length);
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

std::string unescape_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    unsigned char byte = 0;
    const char* const digits = text.data() + 2;
    if (text.size() >= 4 && text.starts_with("\\x") &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      bytes += static_cast<char>(byte);
      text.remove_prefix(4);
    } else {
      bytes += text[0];
      text.remove_prefix(1);
    }
  }
  return bytes;
}

}  // namespace ddprun::facts
