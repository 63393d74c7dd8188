#include "report/known_failures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "base/text.hpp"
#include "report/last_words.hpp"

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

}  // namespace ddprun::report
