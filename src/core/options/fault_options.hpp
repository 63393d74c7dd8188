// Options for what goes wrong: checks of the nodes, ranks that hang or are slow, and the answer to a failure.
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

// --check: whether the nodes are fit for a job, before there is one.

struct CheckOptions {
  bool wanted = false;       // --check: check, and run nothing
  bool json = false;         // --check=json
  bool deep = false;         // --check=deep: with a real all-reduce by torch
  bool automatic = false;    // --check=auto: what takes no time, before the first attempt
  bool strict = false;       // --strict: a warning fails too
  std::string exclude_file;  // --exclude-file: gets the names of nodes that fail, one a line
  Sourced<std::vector<std::string>> command{};                    // --check-command; no words: none
  Sourced<Milliseconds> limit = by_default(Milliseconds{30000});  // --check-timeout
  Sourced<std::vector<std::string>> on_failure{};                 // --on-failure; no words: none
  Milliseconds release_timeout{50000};                            // --gpu-release-timeout; 0: not waited for
  Sourced<int> replace_after = by_default(2);                     // --replace-after, failures; 0: never
};

// Parses "table", "json", "deep", "auto", or several with commas as in "deep,json". Throws UsageError.
CheckOptions parse_check(const std::string& text, const std::string& origin);

// Options for ranks that hang or are slow: --hang-timeout, --slow-notice and those beside them, as values.

// Options for ranks that the others wait for: --slow-notice and --on-slow as values.
enum class OnSlow { report, replace, replace_at_restart };  // --on-slow
inline std::string_view name_of(OnSlow action) {
  return std::array{"report", "replace", "replace-at-restart"}.at(static_cast<std::size_t>(action));
}

struct SlowNotice {
  double share = 0.1;  // share of the window in which the others waited
  Milliseconds window{300'000};
  friend bool operator==(const SlowNotice&, const SlowNotice&) = default;
};

inline constexpr Milliseconds k_shortest_slow_window{5'000};

// Parses "15%" and "15%/10m"; nullopt for any other text, below 1 % or above 99 %, or a window below
// k_shortest_slow_window.
std::optional<SlowNotice> parse_slow_notice(std::string_view text);

enum class OnHang { restart, stop, report };  // --on-hang
inline std::string_view name_of(OnHang action) {
  return std::array{"restart", "stop", "report"}.at(static_cast<std::size_t>(action));
}

struct HangTimeout {
  bool automatic = false;  // derived from the longest silence of the run itself
  Milliseconds time{0};    // time-out, unless automatic
};

inline constexpr Milliseconds k_shortest_hang_timeout{1000}, k_shortest_profile_every{10'000};

struct HangOptions {
  Sourced<bool> inspect = by_default(true);             // --no-inspect
  std::optional<Sourced<HangTimeout>> timeout{};        // --hang-timeout; nullopt: not looked for
  std::optional<Sourced<OnHang>> action{};              // nullopt: restart while restarts are left, else stop
  std::optional<Sourced<Milliseconds>> exit_barrier{};  // --exit-barrier-timeout
  std::optional<Sourced<Milliseconds>> stacks_every{};  // --stacks-every; nullopt: no dumps
  std::optional<Sourced<Milliseconds>> profile_every{};  // --profile-every; nullopt: none
  std::optional<SlowNotice> slow{};                      // --slow-notice; nullopt: off
  Sourced<OnSlow> on_slow = by_default(OnSlow::report);  // --on-slow
};

// Options for the answer to a failure and to the end of the job's time, as values.

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
