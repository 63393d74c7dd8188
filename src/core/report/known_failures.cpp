#include "report/known_failures.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <csignal>
#include <string_view>

#include "base/text.hpp"

namespace ddprun::report {

namespace {

bool has_text(const KnownFailure& known, const std::string& line) {
  return std::any_of(known.texts.begin(), known.texts.end(), [&](std::string_view text) {
    return !text.empty() && line.find(text) != std::string::npos;
  });
}

bool fits(const KnownFailure& known, const std::vector<std::string>& lines) {
  if (known.shown_by != nullptr && known.shown_by(lines)) return true;
  std::size_t seen = 0;
  for (auto line = lines.rbegin(); line != lines.rend() && seen < known.lines; ++line) {
    if (has_text(known, *line)) return true;
    if (!trim(*line).empty()) ++seen;
  }
  return false;
}

bool fits(const KnownFailure& known, const Failure& failure, int world_size) {
  if (world_size < known.least_world_size) return false;
  if (known.texts.front().empty()) {
    if (known.signal == 0) return !failure.out_of_memory.empty();
    return failure.status == ExitStatus{ExitStatus::Kind::signalled, known.signal, {}, false} &&
           failure.out_of_memory.empty() && !failure.after_stop;
  }
  return fits(known, without_crash(failure.last_lines)) || fits(known, split(failure.message, '\n'));
}

}  // namespace

std::vector<const KnownFailure*> find_known_failures(const Failure& failure, int world_size) {
  std::vector<const KnownFailure*> found;
  for (const KnownFailure& known : known_failures()) {
    if (fits(known, failure, world_size)) found.push_back(&known);
  }
  return found;
}

bool may_be_hardware(const Failure& failure) {
  if (failure.gpu_fault) return true;
  if (failure.status.kind == ExitStatus::Kind::signalled && failure.status.value == SIGBUS) return true;
  const auto is_system_error = [](const std::string& line) {
    return line.find("unhandled system error") != std::string::npos;
  };
  return std::ranges::any_of(find_known_failures(failure, 1),
                             [](const KnownFailure* known) { return known->name == "gpu-hardware"; }) ||
         std::ranges::any_of(failure.last_lines, is_system_error) ||
         std::ranges::any_of(split(failure.message, '\n'), is_system_error);
}

std::string find_failure_hint(const Failure& failure, int world_size) {
  const auto found = find_known_failures(failure, world_size);
  return found.empty() ? std::string() : fmt::format("{}: {}", found.front()->meaning, found.front()->remedy);
}

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
