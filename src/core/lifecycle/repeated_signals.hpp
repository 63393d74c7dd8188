// Filter of repeated signals that are sent to a worker directly.
// One end of a job is one signal to a worker, from any sender and however often. Otherwise a handler that
// writes a checkpoint would begin a second one in the middle of the first.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::lifecycle {

class RepeatedSignals {
 public:
  // Makes a filter. `stops`: the signals that ask to end. `grace`: time that a worker has for its end, from
  // the first of them on.
  RepeatedSignals(std::vector<int> stops, Milliseconds grace) : stops_(std::move(stops)), grace_(grace) {}

  // Reports whether the worker gets this signal: any other one, and each request to end once within the
  // grace.
  bool passes(int number, TimePoint now) {
    if (std::find(stops_.begin(), stops_.end(), number) == stops_.end()) return true;
    const auto [entry, first] = passed_.try_emplace(number, now);
    if (!first && now - entry->second < grace_) return false;
    entry->second = now;
    return true;
  }

 private:
  std::vector<int> stops_;
  Milliseconds grace_;
  std::map<int, TimePoint> passed_;
};

}  // namespace ddprun::lifecycle
