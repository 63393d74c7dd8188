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

}  // namespace ddprun::os
