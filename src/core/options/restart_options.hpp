// Options for the answer to a failure, as values: --restart-policy and those beside it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "base/sourced.hpp"

namespace ddprun::options {

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
