// A short program, its output and its end: mpiexec --version, scontrol show job, a site's own check.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "base/exit_status.hpp"

namespace ddprun::os {

// Errors included, at most `most` bytes; what has come by then where it does not end within `limit`, and
// nothing where it cannot be started. It and what it started are killed. Waits.
std::string ask_program(const std::vector<std::string>& words, Milliseconds limit, std::size_t most = 16384);

struct ProgramRun {
  std::vector<std::string> words;
  std::vector<std::string> environment;  // "NAME=value", complete
  std::string input;                     // its standard input
};
struct ProgramEnd {
  std::optional<ExitStatus> status;  // nullopt: it did not end in time, and was killed
  std::string output;                // errors included; what comes after `most` bytes is read and left out
};
// Waits for its end, `limit` at most. What it started is killed as well.
ProgramEnd run_program(const ProgramRun& run, Milliseconds limit, std::size_t most = 16384);

}  // namespace ddprun::os
