// Options for ranks that the others wait for: --slow-notice and --on-slow as values.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/duration.hpp"

namespace ddprun::options {

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

}  // namespace ddprun::options
