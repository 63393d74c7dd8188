#include "supervise/repeated_signals.hpp"

#include <algorithm>

namespace ddprun::supervise {

bool RepeatedSignals::passes(int number, TimePoint now) {
  if (std::find(stops_.begin(), stops_.end(), number) == stops_.end()) return true;
  const auto [entry, first] = passed_.try_emplace(number, now);
  if (!first && now - entry->second < grace_) return false;
  entry->second = now;
  return true;
}

}  // namespace ddprun::supervise
