// Options for the end of a job's time, as values: --signal-before-end, --requeue and those beside them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "base/sourced.hpp"

namespace ddprun::options {

struct SignalBeforeEnd {
  int signal = 0;
  Milliseconds before{0};  // the job's end
};

struct TimeLimitOptions {
  std::optional<Sourced<SignalBeforeEnd>> signal{};  // --signal-before-end
  std::optional<Sourced<int>> requeue{};             // --requeue[=N]; 0: as often as it takes
  Sourced<std::vector<int>> requeue_on = by_default(std::vector<int>{});  // exit codes, ascending
  Sourced<std::vector<int>> no_requeue_on = by_default(std::vector<int>{});
  bool resumes = false;  // --checkpoint-flush: a job that runs again goes on from what was saved
  Sourced<Milliseconds> min_attempt = by_default(Milliseconds{0});  // --min-attempt-time
};

// Parses "USR1@120", "SIGTERM@2m", "USR1" (60 s before). Throws UsageError with a sentence that begins with
// `origin`.
SignalBeforeEnd parse_signal_before_end(const std::string& text, const std::string& origin);

}  // namespace ddprun::options
