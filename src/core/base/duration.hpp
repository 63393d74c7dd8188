// The durations a user types and reads.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

using Milliseconds = std::chrono::milliseconds;
// The driver's monotonic clock; state machines get it as an argument and never read it.
using TimePoint = std::chrono::steady_clock::time_point;

// Limit of a host name's look-up: the C library asks two name servers, five seconds each.
inline constexpr Milliseconds k_lookup_limit{10000};

// Parses "30", "1.5" (seconds), "250ms", "90s", "10m", "2h"; nullopt for any other text or a negative value.
std::optional<Milliseconds> parse_duration(std::string_view text);
// Returns "250 ms", "1.5 s", "90 s", "10 min", "2 h".
std::string describe_duration(Milliseconds duration);
// Does the same for its whole seconds.
std::string describe_seconds(Milliseconds duration);

}  // namespace ddprun
