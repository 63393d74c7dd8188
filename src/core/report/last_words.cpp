#include "report/last_words.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/text.hpp"

namespace ddprun::report {

namespace {

// Removes the "[rank3]: " that torch puts before each line of an uncaught exception.
std::string_view without_rank(std::string_view line) {
  const std::size_t end = line.find("]: ");
  return line.starts_with("[rank") && end != std::string_view::npos ? line.substr(end + 3) : line;
}

bool is_indented(std::string_view line) { return line.starts_with(' ') && !trim(line).empty(); }

// Reports whether the indented lines up to here are of a traceback: "  File "train.py", line 3".
bool ends_frames(const std::vector<std::string>& lines, std::size_t last) {
  for (std::size_t i = last + 1; i-- > 0;) {
    const std::string_view line = without_rank(lines[i]);
    if (!is_indented(line)) return false;
    if (trim(line).starts_with("File \"")) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> without_crash(std::vector<std::string> lines) {
  const auto crash = std::ranges::find_if(
      lines, [](const std::string& line) { return without_rank(line).starts_with("Fatal Python error: "); });
  lines.erase(crash, lines.end());
  return lines;
}

std::vector<std::string> words_of(const Failure& failure) {
  std::vector<std::string> lines = split(failure.message, '\n');
  const std::vector<std::string> last = without_crash(failure.last_lines);
  lines.insert(lines.end(), last.begin(), last.end());
  return lines;
}

std::string last_words(const Failure& failure) {
  const std::vector<std::string> lines = words_of(failure);
  const auto last =
      std::find_if(lines.rbegin(), lines.rend(), [](const auto& line) { return !trim(line).empty(); });
  return last == lines.rend() ? std::string() : std::string(trim(*last));
}

std::string error_words(const Failure& failure) {
  const std::vector<std::string> lines = words_of(failure);
  for (std::size_t i = lines.size(); i-- > 1;) {
    const std::string_view line = without_rank(lines[i]);
    if (trim(line).empty() || is_indented(line)) continue;
    if (ends_frames(lines, i - 1)) return std::string(trim(line));
  }
  return last_words(failure);
}

std::string without_numbers(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  return text;
}

}  // namespace ddprun::report
