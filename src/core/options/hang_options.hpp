// Options for ranks that hang: --hang-timeout and those beside it, as values.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/duration.hpp"
#include "base/sourced.hpp"
#include "options/slow_options.hpp"

namespace ddprun::options {

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
