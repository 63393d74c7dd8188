// Offset of this host's wall clock from the clock of the coordinator, measured by questions to it.
//
// An answer tells the coordinator's time at some moment between the question and the answer: with the middle
// of them the offset is wrong by half of the round trip at most. So the smallest round trip counts, whatever
// else the network and the machines do. Clocks drift apart (and NTP slews them by up to 500 in a million):
// a measurement is used for the look that it was made for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

namespace ddprun::slow {

class ClockOffset {
 public:
  struct Reading {
    std::int64_t offset;  // to be added to a time of this clock
    int bound;            // the offset is wrong by no more
  };

  void begin() { *this = {}; }
  // Notes an answer. All in microseconds: when it was asked and received on this clock, and the other one's.
  void note(std::int64_t asked, std::int64_t other, std::int64_t received) {
    ++answers_;
    const std::int64_t bound =
        std::min<std::int64_t>((received - asked + 1) / 2, std::numeric_limits<int>::max());
    const bool was_set = received < asked;
    if (!was_set && (!best_ || bound < best_->bound))
      best_ = Reading{other - (asked + (received - asked) / 2), static_cast<int>(bound)};
  }
  bool is_done() const { return answers_ >= 5; }
  std::optional<Reading> reading() const { return best_; }

 private:
  int answers_ = 0;
  std::optional<Reading> best_;
};

}  // namespace ddprun::slow
