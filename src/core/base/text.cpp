#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>
#include <utility>

namespace ddprun {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

std::string map_ascii(std::string_view text, int (*change)(int)) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(change(static_cast<unsigned char>(c)));
  return result;
}

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Counts edits; two neighbours in the wrong order are one.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t end = text.find(separator); end != std::string_view::npos;
       end = text.find(separator, start)) {
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  parts.emplace_back(text.substr(start));
  return parts;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  auto position = text.begin();
  while (true) {
    position = std::find_if_not(position, text.end(), is_blank);
    if (position == text.end()) return words;
    const auto end = std::find_if(position, text.end(), is_blank);
    words.emplace_back(position, end);
    position = end;
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string describe_attempt(int attempt, int restarts, int most_restarts) {
  return attempt == restarts
             ? fmt::format("restart {} of {}", restarts, most_restarts)
             : fmt::format("attempt {}, {} of {} restarts used", attempt, restarts, most_restarts);
}

std::string count_of(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string to_lower(std::string_view text) {
  return map_ascii(text, [](int c) { return std::tolower(c); });
}
std::string to_upper(std::string_view text) {
  return map_ascii(text, [](int c) { return std::toupper(c); });
}

std::optional<std::int64_t> parse_integer(std::string_view text) { return parse_whole<std::int64_t>(text); }
std::optional<double> parse_number(std::string_view text) { return parse_whole<double>(text); }

std::string shell_quote(std::string_view text) {
  const auto safe = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-./=:,@%+").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), safe)) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_quote(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  quoted.reserve(words.size());
  for (const std::string& word : words) quoted.push_back(shell_quote(std::string_view(word)));
  return join(quoted, " ");
}

std::optional<std::string> closest_match(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = std::min<std::size_t>(3, (word.size() - (word.empty() ? 0 : 1)) / 2) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string_view short_host_name(std::string_view name) {
  const bool numeric = name.find(':') != std::string_view::npos ||
                       name.find_first_not_of("0123456789.") == std::string_view::npos;
  return numeric ? name : name.substr(0, name.find('.'));
}

bool same_host(std::string_view a, std::string_view b) {
  return to_lower(short_host_name(a)) == to_lower(short_host_name(b));
}

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    // The second byte's range is narrower after these four (Unicode standard, table 3-7).
    const unsigned low = i > 1 ? 0x80 : lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned high = i > 1 ? 0xbf : lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (byte(i) < low || byte(i) > high) return 0;
  }
  return length;
}

namespace {

// U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069 and U+061C, which end lines and turn the order of what
// is shown.
bool turns_text(std::string_view character) {
  if (character == "\xd8\x9c") return true;
  if (character.size() != 3 || character[0] != '\xe2') return false;
  const auto middle = static_cast<unsigned char>(character[1]);
  const auto last = static_cast<unsigned char>(character[2]);
  if (middle == 0x80) return last == 0x8e || last == 0x8f || (last >= 0xa8 && last <= 0xae);
  return middle == 0x81 && last >= 0xa6 && last <= 0xa9;
}

// Returns the length of a character at the start of `text` that a terminal shows and does not obey; 0 when
// there is none. U+0080 to U+009F are control characters too: U+009B starts an escape sequence.
std::size_t shown_length(std::string_view text) {
  const std::size_t length = utf8_length(text);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (length == 1 && (byte(0) < 0x20 || byte(0) == 0x7f)) return 0;
  if (length == 2 && byte(0) == 0xc2 && byte(1) < 0xa0) return 0;
  if (turns_text(text.substr(0, length))) return 0;
  return length;
}

// Moves one character, or one byte as \xNN.
void show_first(std::string_view& text, std::string& result) {
  const std::size_t length = shown_length(text);
  if (length == 0) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
  result += text.substr(0, length);
  text.remove_prefix(std::max<std::size_t>(length, 1));
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_length) {
  std::string result;
  while (!text.empty()) {
    if (result.size() >= max_length) return result + "...";
    show_first(text, result);
  }
  return result;
}

std::string printable_lines(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    if (text.front() != '\n') {
      show_first(text, result);
    } else {
      result += '\n';
      text.remove_prefix(1);
    }
  }
  return result;
}

std::string escape_markup(std::string_view text, std::size_t longest) {
  std::string escaped;
  for (const char c : printable(text, longest)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace ddprun
