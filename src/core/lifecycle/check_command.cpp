#include "lifecycle/check_command.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/text.hpp"

namespace ddprun::lifecycle {

namespace {

constexpr std::size_t k_said_width = 300;

std::string first_line(const std::string& output) {
  for (const std::string& line : split(output, '\n')) {
    if (const auto text = trim(line); !text.empty()) return printable(text, k_said_width);
  }
  return {};
}

}  // namespace

std::string describe_ending(const std::string& name, const std::optional<ExitStatus>& status,
                            const std::string& output, Milliseconds limit) {
  if (!status) return fmt::format("{} did not end within {}", name, describe_duration(limit));
  const std::string said = first_line(output);
  return fmt::format("{} {}{}", name, report::describe(*status), said.empty() ? "" : ": " + said);
}

CommandVerdict judge_command(const std::string& name, const std::optional<ExitStatus>& status,
                             std::string output, Milliseconds limit) {
  const bool exited = status && status->kind == ExitStatus::Kind::exited;
  if (exited && status->value == 0) return {Fitness::fit, {}, std::move(output)};
  if (!exited || status->value != 1) {
    const std::string what = describe_ending(name, status, output, limit);
    return {Fitness::unknown, what, std::move(output)};
  }
  const std::string said = first_line(output);
  return {Fitness::unfit, said.empty() ? name + " says that it is unfit" : said, std::move(output)};
}

std::string describe_broken(const CommandVerdict& verdict, const std::string& host) {
  return fmt::format("{} is not judged by --check-command: {}", host, verdict.what);
}

}  // namespace ddprun::lifecycle
