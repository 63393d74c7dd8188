// The time of day, for what people and other programs read.
#pragma once

#include <chrono>
#include <cstdint>

namespace ddprun::os {

inline std::int64_t unix_milliseconds() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace ddprun::os
