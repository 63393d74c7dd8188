// Verdict of a check command of the site or the user (--check-command) on one node.
//
// It exits with 0 where the node is fit and with 1 where it is not, and the first line of its output is the
// reason. Anything else, or no answer in time, says that the check is broken, and nothing of the node: one
// slow or missing program must not end a sound job.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/duration.hpp"
#include "base/exit_status.hpp"
#include "report/outcome.hpp"

namespace ddprun::lifecycle {

// Reason for which the command runs: DDPRUN_CHECK_FOR.
enum class CheckFor { start, restart, failure };
inline std::string_view name_of(CheckFor why) {
  return std::array{"start", "restart", "failure"}.at(static_cast<std::size_t>(why));
}

inline constexpr std::size_t k_most_check_output = 65536;  // bytes that are kept of what it says

enum class Fitness { fit, unfit, unknown };

struct CommandVerdict {
  Fitness fitness = Fitness::fit;
  std::string what{};    // unfit: the reason; unknown: what is wrong with the check
  std::string output{};  // all that it said
};

inline constexpr const char* k_unfit_hint =
    "the command of --check-command says so; leave the node out until it is mended";
inline constexpr const char* k_broken_hint =
    "run the command of --check-command by hand on that host; it exits with 0 for a fit node, with 1 for an "
    "unfit one";

// Describes how a command ended, with the first line of what it said: "notify exited with code 2: no route".
// `status`: nullopt: not within `limit`.
std::string describe_ending(const std::string& name, const std::optional<ExitStatus>& status,
                            const std::string& output, Milliseconds limit);

CommandVerdict judge_command(const std::string& name, const std::optional<ExitStatus>& status,
                             std::string output, Milliseconds limit);

// "n1 is not judged by --check-command: site-check exited with code 2"
std::string describe_broken(const CommandVerdict& verdict, const std::string& host);

}  // namespace ddprun::lifecycle
