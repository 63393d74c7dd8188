// The clocks: one that only goes forward, and the time of day, for what people and other programs read.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/duration.hpp"

namespace ddprun::os {

inline TimePoint now() { return std::chrono::steady_clock::now(); }

inline std::int64_t unix_milliseconds() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

inline std::int64_t unix_microseconds() {
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

// Returns the time until the wall clock shows the next multiple of `every`; the one after that where half of
// it is left at most, as a timer may be early.
inline Milliseconds until_multiple(Milliseconds every) {
  const Milliseconds left = every - Milliseconds{unix_milliseconds()} % every;
  return left < every / 2 ? left + every : left;
}

}  // namespace ddprun::os
