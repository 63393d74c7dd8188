// Options for ranks that hang or are slow: --hang-timeout, --slow-notice and those beside them, as values.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/duration.hpp"
#include "base/sourced.hpp"

namespace ddprun::options {

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

}  // namespace ddprun::options
