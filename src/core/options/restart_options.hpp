// Options for the answer to a failure and to the end of the job's time, as values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "base/sourced.hpp"

namespace ddprun::options {

// Options for the end of a job's time, as values: --signal-before-end, --requeue and those beside them.
struct SignalBeforeEnd {
  int signal = 0;
  Milliseconds before{0};  // the job's end
  friend bool operator==(const SignalBeforeEnd&, const SignalBeforeEnd&) = default;
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

enum class RestartRule { always, progress, never };
inline std::string_view name_of(RestartRule rule) {
  return std::array{"always", "progress", "never"}.at(static_cast<std::size_t>(rule));
}

inline constexpr Milliseconds k_longest_backoff{60000};

struct RestartOptions {
  Sourced<RestartRule> rule = by_default(RestartRule::progress);             // --restart-policy
  Sourced<Milliseconds> min_progress = by_default(Milliseconds{300000});     // above 0
  Sourced<std::vector<int>> no_restart_on = by_default(std::vector<int>{});  // ascending
  Sourced<Milliseconds> backoff = by_default(Milliseconds{0});               // up to k_longest_backoff
  Sourced<bool> standby = by_default(false);                                 // --standby
  std::size_t standbys = SIZE_MAX;                                           // --standby N: of a host at most
  Sourced<std::uint64_t> standby_memory = by_default(std::uint64_t{2} << 30U);  // bytes of each interpreter
};

// Parses "3" or "3,64,137", each from 1 to 255, to ascending codes, each once. Throws UsageError, also for a
// range, with a sentence that begins with `origin`.
std::vector<int> parse_exit_codes(const std::string& text, const std::string& origin);

}  // namespace ddprun::options
