// JSON that people write: an iterator counts the lines while the parser reads, and each key's line is kept.
#include "facts/lined_json.hpp"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::facts {

namespace {

constexpr int k_deepest = 6;

// The parser's place in the text, by which a key event is a line.
class LineCountingIterator {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the names that std::iterator_traits reads
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  // NOLINTEND(readability-identifier-naming)

  LineCountingIterator(const char* at, int* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  LineCountingIterator& operator++() {
    if (*at_ == '\n') ++*line_;
    ++at_;
    return *this;
  }
  friend bool operator==(const LineCountingIterator& a, const LineCountingIterator& b) {
    return a.at_ == b.at_;
  }

 private:
  const char* at_;
  int* line_;
};

void note_lines(LinedJson& source, const LinedJson::Json& value, int line,
                std::vector<int>::const_iterator& next) {
  source.lines[&value] = line;
  for (const auto& [key, member] : value.items()) {
    if (value.is_object()) note_lines(source, member, *next++, next);
    if (value.is_array()) note_lines(source, member, line, next);
  }
}

// Gives the lines of all keys in their order.
std::vector<int> parse(LinedJson& source, const std::string& text) {
  int line = 1;
  std::vector<int> key_lines;
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, LinedJson::Json::parse_event_t event, LinedJson::Json& value) {
    if (depth > k_deepest) source.fail(line, "it is nested too deeply");
    if (event == LinedJson::Json::parse_event_t::object_start) keys.emplace_back();
    if (event == LinedJson::Json::parse_event_t::object_end) keys.pop_back();
    if (event == LinedJson::Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) source.fail(line, printable(key) + " appears twice");
      key_lines.push_back(line);
    }
    return true;
  };
  try {
    source.json = LinedJson::Json::parse(LineCountingIterator(text.data(), &line),
                                         LineCountingIterator(text.data() + text.size(), &line), check);
  } catch (const LinedJson::Json::exception&) {
    source.fail(line, "it is not JSON");
  }
  return key_lines;
}

}  // namespace

int LinedJson::line_of(const LinedJson::Json& value) const {
  const auto line = lines.find(&value);
  return line == lines.end() ? 1 : line->second;
}

void LinedJson::fail(int line, const std::string& why) const {
  const std::string where = line == 0 ? "" : fmt::format(", line {}", line);
  throw UsageError(fmt::format("cannot use {}{}: {}", subject, where, why), hint);
}

LinedJson read_lined_json(const std::string& text, std::string subject, std::string hint, std::size_t limit) {
  LinedJson source{std::move(subject), std::move(hint), {}, {}};
  if (text.size() > limit) source.fail(0, fmt::format("it is larger than {} KiB", limit >> 10U));
  if (trim(text).empty()) source.fail(0, "it is empty or cannot be read");
  const std::vector<int> key_lines = parse(source, text);
  if (!source.json.is_object()) source.fail(1, "it must be an object");
  auto next = key_lines.cbegin();
  note_lines(source, source.json, 1, next);
  return source;
}

}  // namespace ddprun::facts
