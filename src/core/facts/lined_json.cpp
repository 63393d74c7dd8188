#include "facts/lined_json.hpp"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::facts {

// JSON that people write: an iterator counts the lines while the parser reads, and each key's line is kept.

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

// The number after `word` in the parser's message; 0 where there is none.
int number_after(std::string_view message, std::string_view word) {
  const std::size_t at = message.find(word);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = message.substr(at + word.size());
  return static_cast<int>(parse_integer(rest.substr(0, rest.find_first_not_of("0123456789"))).value_or(0));
}

// "[json.exception.parse_error.101] parse error at line 3, column 1: syntax error while parsing object key -
// unexpected '}'; expected string literal" as a complaint with that place.
[[noreturn]] void fail_at(const LinedJson& source, std::string_view message, int line) {
  constexpr std::string_view k_dash = " - ";
  const int known = number_after(message, " at line ");
  const int column = number_after(message, ", column ");
  const std::size_t dash = message.find(k_dash);
  std::string why = "it is not JSON";
  if (dash != std::string_view::npos)
    why += fmt::format(" ({})", printable(message.substr(dash + k_dash.size())));
  source.fail(known == 0 ? line : known, why, column);
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
  } catch (const LinedJson::Json::parse_error& error) {
    fail_at(source, error.what(), line);
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

void LinedJson::fail(int line, const std::string& why, int column) const {
  std::string where = line == 0 ? "" : fmt::format(", line {}", line);
  if (column > 0) where += fmt::format(", column {}", column);
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

namespace {

constexpr std::size_t k_longest_text = 1000;
constexpr const char* k_config_hint =
    R"(write options as in {"max-restarts": 3, "bind": "near", "quiet": true}; man ddprun-formats describes the file)";

std::string text_of(const LinedJson& source, const LinedJson::Json& value, const std::string& name) {
  const int line = source.line_of(value);
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number()) return value.dump();
  if (!value.is_string()) source.fail(line, name + " must be text, a number, true or false");
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > k_longest_text || printable(text, k_longest_text) != text) {
    source.fail(line, fmt::format("{} is longer than {} or has characters that cannot be printed", name,
                                  k_longest_text));
  }
  return text;
}

}  // namespace

std::vector<std::string> config_files(const Environment& environment) {
  std::vector<std::string> files = site_folders(environment);
  for (std::string& file : files) {
    file.erase(file.size() - std::string_view("sites.d").size());
    file += "config.json";
  }
  return files;
}

std::vector<OptionText> read_option_texts(const LinedJson& source, const LinedJson::Json& object,
                                          const std::string& file) {
  std::vector<OptionText> options;
  for (const auto& [key, value] : object.items()) {
    const std::string name = printable(key);
    options.push_back({key, text_of(source, value, name),
                       fmt::format("{} ({}, line {})", name, printable(file), source.line_of(value))});
  }
  return options;
}

std::vector<OptionText> parse_config(const std::string& text, const std::string& file) {
  const LinedJson source =
      read_lined_json(text, "the configuration " + printable(file), k_config_hint, k_config_limit);
  return read_option_texts(source, source.json, file);
}

std::vector<std::string> site_folders(const Environment& environment) {
  const auto value_of = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  std::vector<std::string> folders;
  // The XDG base directory specification: a relative path there is to be ignored.
  if (const std::string config = value_of("XDG_CONFIG_HOME"); config.starts_with('/')) {
    folders.push_back(config + "/ddprun/sites.d");
  } else if (const std::string home = value_of("HOME"); home.starts_with('/')) {
    folders.push_back(home + "/.config/ddprun/sites.d");
  }
  folders.push_back("/etc/ddprun/sites.d");
  return folders;
}

namespace {

constexpr std::string_view k_home = "PBS_HOME=";

}  // namespace

std::string find_pbs_configuration(const Environment& environment) {
  const bool told = !variable_or_empty(environment, "PBS_NODEFILE").empty() ||
                    !variable_or_empty(environment, "PBS_HOME").empty();
  if (told || variable_or_empty(environment, "PBS_JOBID").empty()) return {};
  const std::string named = variable_or_empty(environment, "PBS_CONF_FILE");
  return named.empty() ? "/etc/pbs.conf" : named;
}

Environment with_pbs_home(Environment environment, const std::string& configuration) {
  if (!variable_or_empty(environment, "PBS_HOME").empty()) return environment;
  for (const std::string& line : split(configuration, '\n')) {
    const std::string_view text = trim(line);
    if (text.starts_with(k_home)) environment["PBS_HOME"] = trim(text.substr(k_home.size()));
  }
  return environment;
}

}  // namespace ddprun::facts
