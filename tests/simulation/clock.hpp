// Virtual time: what is due happens in order, and nothing waits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::simulation {

using Random = std::mt19937;
using Microseconds = std::chrono::microseconds;

class Clock {
 public:
  TimePoint now() const { return now_; }
  void at(TimePoint when, std::function<void()> what) {
    due_.push({std::max(when, now_), ++last_, std::move(what)});
  }
  void after(Microseconds delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }
  // False when nothing is left to happen.
  bool step() {
    if (due_.empty()) return false;
    const std::function<void()> what = due_.top().what;
    now_ = due_.top().when;
    due_.pop();
    what();
    return true;
  }

 private:
  struct Due {
    TimePoint when;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Due& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  TimePoint now_{};
  std::uint64_t last_ = 0;
  std::priority_queue<Due> due_;
};

// Replaced with each setting, so that what was due before does nothing.
class Timer {
 public:
  explicit Timer(Clock& clock) : clock_(clock), current_(std::make_shared<std::uint64_t>(0)) {}
  // Whether that setting still counts.
  using Counts = std::function<bool()>;
  Counts set(TimePoint when, std::function<void()> what) {
    Counts counts = [mine = ++*current_, weak = std::weak_ptr(current_)] {
      const auto current = weak.lock();
      return current && *current == mine;
    };
    clock_.at(when, [counts, what = std::move(what)] {
      if (counts()) what();
    });
    return counts;
  }
  void cancel() { ++*current_; }

 private:
  Clock& clock_;
  std::shared_ptr<std::uint64_t> current_;
};

inline int pick(Random& random, int below) {
  return std::uniform_int_distribution<int>(0, below - 1)(random);
}
inline bool one_in(Random& random, int many) { return pick(random, many) == 0; }
inline Microseconds between(Random& random, Microseconds least, Microseconds most) {
  return Microseconds(std::uniform_int_distribution<std::int64_t>(least.count(), most.count())(random));
}

}  // namespace ddprun::simulation
