// Options of one program of several in a job, as values.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "base/sourced.hpp"

namespace ddprun::options {

// Meaning of the end of a program for the job.
enum class OnExit {
  job,      // the job ends with it, and with its code
  fail,     // its failure is the job's; without one the others go on
  restart,  // it is started again, alone
  ignore,   // the others go on
};
inline std::string_view name_of(OnExit action) {
  return std::array{"job", "fail", "restart", "ignore"}.at(static_cast<std::size_t>(action));
}

inline constexpr Milliseconds k_ready_timeout{600'000};

struct ProgramOptions {
  std::string name;                // --name; empty: the script's
  std::string nodes;               // --nodes: numbers in the job's order, or hosts; empty: the next ones
  std::string with;                // --with: the program whose nodes it shares; empty: none
  std::vector<std::string> after;  // --after: programs that have to be ready before it starts
  std::string ready;               // --ready: a port that answers, or a file; empty: DDPRUN_READY_FILE
  Milliseconds ready_timeout = k_ready_timeout;  // --ready-timeout: of the programs in `after`
  std::optional<OnExit> on_exit;                 // --on-exit
  bool independent = false;                      // --independent: each of its workers is for itself
  std::vector<std::pair<std::string, std::string>> environment;  // --env, in the order given
};

// Parses "NAME=value". Throws UsageError with a sentence that begins with `origin`.
std::pair<std::string, std::string> parse_variable(const std::string& text, const std::string& origin);
// Parses the name of a program: letters, digits, '-' and '_', 40 at most, a letter first. Throws UsageError.
std::string parse_program_name(const std::string& text, const std::string& origin);

}  // namespace ddprun::options
