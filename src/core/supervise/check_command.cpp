#include "supervise/check_command.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/text.hpp"

namespace ddprun::supervise {

namespace {

constexpr std::size_t k_reason_width = 300;

std::string first_line(const std::string& output) {
  for (const std::string& line : split(output, '\n')) {
    if (const auto text = trim(line); !text.empty()) return printable(text, k_reason_width);
  }
  return {};
}

}  // namespace

CommandVerdict judge_command(const std::string& name, const std::optional<ExitStatus>& status,
                             std::string output, Milliseconds limit) {
  const std::string said = first_line(output);
  if (!status) {
    return {Fitness::unknown, fmt::format("{} gave no answer within {}", name, describe_duration(limit)),
            std::move(output)};
  }
  const bool exited = status->kind == ExitStatus::Kind::exited;
  if (exited && status->value == 0) return {Fitness::fit, {}, std::move(output)};
  if (exited && status->value == 1)
    return {Fitness::unfit, said.empty() ? name + " says that it is unfit" : said, std::move(output)};
  return {Fitness::unknown, fmt::format("{} {}{}", name, describe(*status), said.empty() ? "" : ": " + said),
          std::move(output)};
}

std::string describe_broken(const CommandVerdict& verdict, const std::string& host) {
  return fmt::format("{} is not judged by --check-command: {}", host, verdict.what);
}

}  // namespace ddprun::supervise
