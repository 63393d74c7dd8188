#include "ddprun/supervise/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

constexpr std::size_t k_line_width = 400;
constexpr std::size_t k_message_lines = 30;

std::string describe_time(std::int64_t unix_milliseconds) {
  const auto seconds = static_cast<std::time_t>(unix_milliseconds / 1000);
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(seconds));
}

std::string details(const Failure& failure, int max_restarts) {
  std::string text = fmt::format("  {}", failure.program);
  if (failure.pid > 0) text += fmt::format(", pid {}", failure.pid);
  if (failure.unix_milliseconds > 0) text += ", ended " + describe_time(failure.unix_milliseconds);
  if (max_restarts > 0) text += fmt::format(", restart {} of {}", failure.attempt.value, max_restarts);
  return text + "\n";
}

std::string quoted_block(const std::string& heading, const std::vector<std::string>& lines,
                         std::size_t most) {
  if (lines.empty()) return {};
  std::string text = "  " + heading + "\n";
  const std::size_t skipped = lines.size() > most ? lines.size() - most : 0;
  for (std::size_t i = skipped; i < lines.size(); ++i)
    text += "  | " + printable(lines[i], k_line_width) + "\n";
  return text;
}

}  // namespace

std::string render_report(const Cause& cause, int max_restarts) {
  if (cause.kind == Cause::Kind::success) return {};
  std::string text = describe(cause) + "\n";
  if (cause.kind != Cause::Kind::worker_failed) return text;
  const Failure& failure = cause.failure;
  text += details(failure, max_restarts);
  // A worker that wrote an error file has its traceback there; its last lines would say the same again.
  if (!failure.message.empty()) {
    std::vector<std::string> lines = split(trim(failure.message), '\n');
    text += quoted_block("its error:", lines, k_message_lines);
  } else {
    text += quoted_block("its last lines:", failure.last_lines, k_message_lines);
  }
  return failure.hint.empty() ? text : text + "  hint: " + printable(failure.hint, k_line_width) + "\n";
}

std::string render_restart(const Cause& cause, Attempt next, int max_restarts) {
  return fmt::format("{}; starting all workers again (restart {} of {})", describe(cause), next.value,
                     max_restarts);
}

}  // namespace ddprun
