#include "output/difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/text.hpp"

namespace ddprun::output {

namespace {

using Kind = Difference::Kind;

constexpr std::array k_words{"port", "address", "pid",      "memory address",  "rank",
                             "GPU",  "time",    "duration", "temporary folder"};
constexpr std::array<std::string_view, 11> k_units{"s",  "sec", "secs",    "second", "seconds",     "ms",
                                                   "us", "min", "minutes", "h",      "milliseconds"};
constexpr char k_mark = '\x01';
constexpr std::string_view k_temporary = "/tmp/";

// A word after which a number is of that kind: "pid 12", "port=29500", "cuda:3".
struct Keyword {
  std::string_view word;  // in small letters
  Kind kind;
};
constexpr std::array k_keywords{
    Keyword{"rank", Kind::rank},   Keyword{"pid(s)", Kind::pid},  Keyword{"pid", Kind::pid},
    Keyword{"port", Kind::port},   Keyword{"gpu", Kind::gpu},     Keyword{"cuda", Kind::gpu},
    Keyword{"cudadev", Kind::gpu}, Keyword{"nvmldev", Kind::gpu}, Keyword{"device", Kind::gpu}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_digit(c) || is_letter(c) || c == '_'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

template <class Is>
std::size_t count_while(std::string_view text, const Is& is) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, is) - text.begin());
}

std::size_t digits(std::string_view text) { return count_while(text, is_digit); }

// Reports whether `text` begins with `pattern`, in which '9' stands for a digit.
bool matches(std::string_view text, std::string_view pattern) {
  return text.size() >= pattern.size() &&
         std::equal(pattern.begin(), pattern.end(), text.begin(),
                    [](char wanted, char c) { return wanted == '9' ? is_digit(c) : wanted == c; });
}

// Measures "23:12:03.964266598", "23:12:03,964".
std::size_t length_of_time(std::string_view text) {
  if (!matches(text, "99:99:99")) return 0;
  const bool fraction = text.size() > 9 && (text[8] == '.' || text[8] == ',') && is_digit(text[9]);
  return fraction ? 9 + digits(text.substr(9)) : 8;
}

std::size_t length_of_ipv4(std::string_view text) {
  std::size_t length = 0;
  for (int part = 0; part < 4; ++part) {
    const std::size_t count = digits(text.substr(length));
    if (count < 1 || count > 3) return 0;
    length += count;
    if (part == 3) break;
    if (length >= text.size() || text[length] != '.') return 0;
    ++length;
  }
  const char next = length < text.size() ? text[length] : ' ';
  return is_word(next) || (next == '.' && length + 1 < text.size() && is_digit(text[length + 1])) ? 0
                                                                                                  : length;
}

// Measures "fe80::1" in brackets, which are not counted.
std::size_t length_of_ipv6(std::string_view text) {
  const std::size_t length = count_while(text, [](char c) { return is_hex(c) || c == ':' || c == '.'; });
  const auto colons = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length), ':');
  return colons >= 2 && length < text.size() && text[length] == ']' ? length : 0;
}

// Measures "3.2 s", "1000ms", its unit included.
std::size_t length_of_duration(std::string_view text) {
  std::size_t length = digits(text);
  if (length + 1 < text.size() && text[length] == '.' && is_digit(text[length + 1]))
    length += 1 + digits(text.substr(length + 1));
  if (length < text.size() && text[length] == ' ') ++length;
  const std::string_view unit = text.substr(length, count_while(text.substr(length), is_word));
  return std::ranges::find(k_units, unit) == k_units.end() ? 0 : length + unit.size();
}

// Scan of one line, from left to right.
class Scan {
 public:
  Scan(std::string_view line, GlobalRank rank, Comparable& found)
      : line_(line), own_rank_(std::to_string(rank.value)), found_(found) {}

  void run() {
    if (const std::string mark = fmt::format("[rank{}]: ", own_rank_); line_.starts_with(mark))
      at_ = mark.size();
    scan_nccl();
    while (at_ < line_.size()) {
      if (!begins() || !(scan_keyword() || scan_word() || scan_number())) scan_rest();
    }
  }

 private:
  std::string_view rest() const { return line_.substr(at_); }
  bool begins() const { return at_ == 0 || !is_word(line_[at_ - 1]); }
  void keep(std::size_t length) {
    found_.text += line_.substr(at_, length);
    at_ += length;
  }
  bool take(Kind kind, std::size_t length) {
    if (length == 0) return false;
    found_.text += k_mark;
    found_.text += static_cast<char>('a' + static_cast<int>(kind));
    found_.parts.push_back({kind, std::string(line_.substr(at_, length))});
    at_ += length;
    return true;
  }

  // Scans "n1:955:985 [0] NCCL INFO ..."
  void scan_nccl() {
    const std::size_t name = rest().find(':');
    if (name == 0 || name == std::string_view::npos || line_.find("] NCCL ") == std::string_view::npos)
      return;
    keep(name + 1);
    if (take(Kind::pid, digits(rest())) && rest().starts_with(':')) {
      keep(1);
      take(Kind::pid, digits(rest()));
    }
    if (rest().starts_with(" [")) {
      keep(2);
      take(Kind::gpu, digits(rest()));
    }
  }

  bool scan_keyword() {
    if (!is_letter(line_[at_])) return false;
    for (const Keyword& keyword : k_keywords) {
      const std::string_view text = rest();
      if (text.size() <= keyword.word.size() ||
          to_lower(text.substr(0, keyword.word.size())) != keyword.word ||
          is_letter(text[keyword.word.size()]))
        continue;
      const std::size_t gap = count_while(text.substr(keyword.word.size()),
                                          [](char c) { return c == ' ' || c == '=' || c == ':'; });
      const std::size_t number = digits(text.substr(keyword.word.size() + gap));
      if (gap > 2 || number == 0) continue;
      if (keyword.kind == Kind::rank && text.substr(keyword.word.size() + gap, number) != own_rank_)
        return false;
      keep(keyword.word.size() + gap);
      take(keyword.kind, number);
      while (keyword.kind == Kind::pid && matches(rest(), ", 9")) {
        keep(2);
        take(Kind::pid, digits(rest()));
      }
      return true;
    }
    return false;
  }

  // Scans "W1126 23:12:03.964 12345 ", "0x7f12ab".
  bool scan_word() {
    if (matches(rest().substr(1), "9999 99:99:99") &&
        std::string_view("IWEF").find(line_[at_]) != std::string_view::npos)
      return scan_glog();
    if (rest().starts_with("0x")) {
      const std::size_t length = count_while(rest().substr(2), is_hex);
      if (length < 4) return false;
      keep(2);
      return take(Kind::memory_address, length);
    }
    return false;
  }

  bool scan_glog() {
    keep(1);
    take(Kind::time, 5 + length_of_time(rest().substr(5)));
    if (!matches(rest(), " 9")) return true;
    const std::size_t thread = digits(rest().substr(1));
    if (!rest().substr(1 + thread).starts_with(' ')) return true;
    keep(1);
    return take(Kind::pid, thread);
  }

  bool scan_number() {
    if (!is_digit(line_[at_])) return false;
    if (const std::size_t address = length_of_ipv4(rest())) {
      take(Kind::address, address);
      scan_port();
      return true;
    }
    if (matches(rest(), "9999-99-99")) return take(Kind::time, 10);
    if (take(Kind::time, length_of_time(rest())) || take(Kind::duration, length_of_duration(rest())))
      return true;
    keep(count_while(rest(), [](char c) { return is_word(c) || c == '.'; }));
    return true;
  }

  // Scans what follows an address: ":29500", "]:29500", "<29500>".
  void scan_port() {
    for (const std::string_view before : {"]:", ":", "<"}) {
      if (!rest().starts_with(before) || digits(rest().substr(before.size())) == 0) continue;
      keep(before.size());
      take(Kind::port, digits(rest()));
      return;
    }
  }

  void scan_rest() {
    if (rest().starts_with('[')) {
      if (const std::size_t address = length_of_ipv6(rest().substr(1))) {
        keep(1);
        take(Kind::address, address);
        return scan_port();
      }
    }
    if (rest().starts_with(k_temporary)) {
      keep(k_temporary.size());
      take(Kind::temporary_path,
           count_while(rest(), [](char c) { return is_word(c) || c == '-' || c == '.'; }));
      return;
    }
    keep(1);
  }

  std::string_view line_;
  std::string own_rank_;
  Comparable& found_;
  std::size_t at_ = 0;
};

}  // namespace

Comparable make_comparable(std::string_view lines, GlobalRank rank) {
  Comparable found;
  found.text.reserve(lines.size());
  while (!lines.empty()) {
    const std::size_t length = std::min(lines.find('\n'), lines.size() - 1) + 1;
    Scan(lines.substr(0, length), rank, found).run();
    lines.remove_prefix(length);
  }
  return found;
}

bool are_alike(const Comparable& one, const Comparable& other) {
  return one.text == other.text && one.parts.size() == other.parts.size();
}

std::string describe_kinds(const std::vector<Difference>& differences) {
  std::set<Kind> kinds;
  for (const Difference& each : differences) kinds.insert(each.kind);
  std::vector<std::string> words;
  for (const Kind kind : kinds)
    words.push_back(fmt::format("the {}", k_words[static_cast<std::size_t>(kind)]));
  if (words.size() < 2) return join(words, "");
  const std::string last = words.back();
  words.pop_back();
  return fmt::format("{} and {}", join(words, ", "), last);
}

}  // namespace ddprun::output
