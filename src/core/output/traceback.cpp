#include "output/traceback.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text.hpp"

namespace ddprun::output {

namespace {

constexpr std::string_view k_traceback = "Traceback (most recent call last):";
constexpr std::string_view k_mark_begin = "[rank", k_mark_end = "]: ";

// Returns the length of torch's "[rank3]: " in front of a line; 0: it has none.
std::size_t length_of_mark(std::string_view line) {
  if (!line.starts_with(k_mark_begin)) return 0;
  const std::size_t end = line.find(k_mark_end);
  return end == std::string_view::npos ? 0 : end + k_mark_end.size();
}

std::optional<int> rank_of(std::string_view line) {
  const std::size_t length = length_of_mark(line);
  if (length == 0) return std::nullopt;
  const std::size_t before = k_mark_begin.size();
  const auto number = parse_integer(line.substr(before, length - before - k_mark_end.size()));
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::size_t find_traceback(std::string_view text) {
  for (std::size_t at = text.find(k_traceback); at != std::string_view::npos;
       at = text.find(k_traceback, at + 1)) {
    const std::size_t start = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 is 0
    const std::string_view before = text.substr(start, at - start);
    if (before.empty() || length_of_mark(before) == before.size()) return start;
  }
  return std::string_view::npos;
}

bool is_unfinished_traceback(std::string_view text, GlobalRank rank) {
  if (find_traceback(text) != 0 || !text.ends_with('\n')) return false;
  const std::string mark = fmt::format("[rank{}]: ", rank.value);
  text.remove_suffix(1);
  std::string_view last = text.substr(text.rfind('\n') + 1);  // npos + 1 is 0
  if (last.starts_with(mark)) last.remove_prefix(mark.size());
  return last.starts_with(' ') || last == k_traceback;
}

bool TracebackSplitter::ends_before(std::string_view line) const {
  if (line.empty()) return false;
  if (line.starts_with("ddprun: ") || rank_of(line) != rank_) return true;
  if (!rank_ && line.size() > 1 && line[0] == '[' && line[1] >= '0' && line[1] <= '9') return true;
  return !after_empty_ && line.substr(length_of_mark(line)).starts_with(k_traceback);
}

std::vector<TracebackSplitter::Part> TracebackSplitter::split(std::string_view text) {
  std::vector<Part> parts;
  while (!text.empty()) {
    std::size_t length = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = first_line(text);
    const bool ends = inside_ && at_start_ && ends_before(line);
    const bool begins = (!inside_ || ends) && at_start_ && find_traceback(line) == 0;
    if (ends || begins) {
      inside_ = begins;
      rank_ = begins ? rank_of(line) : std::nullopt;
    }
    if (!inside_) {  // all until the next traceback
      const std::size_t start = find_traceback(text.substr(length));
      length = start == std::string_view::npos ? text.size() : length + start;
    }
    if (ends || begins || parts.empty()) {
      parts.push_back({text.substr(0, length), ends || begins, rank_});
    } else {
      std::string_view& last = parts.back().text;
      last = {last.data(), last.size() + length};
    }
    at_start_ = text[length - 1] == '\n';
    after_empty_ = line.size() == length_of_mark(line);
    text.remove_prefix(length);
  }
  return parts;
}

}  // namespace ddprun::output
