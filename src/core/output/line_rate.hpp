// Limit of a stream's shown bytes per second.
// Whole lines are shown as far as it allows; the bytes beyond are counted. A line that has begun is shown to
// its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/duration.hpp"

namespace ddprun::output {

class LineRate {
 public:
  struct LeftOut {
    std::uint64_t lines = 0;
    std::uint64_t bytes = 0;
  };

  explicit LineRate(std::uint64_t bytes_a_second) : allowed_(bytes_a_second) {}

  // Returns the part of `text` that is shown. Ask take_left_out() first.
  std::string add(std::string_view text, TimePoint now);
  // Returns what was left out of the second that is over; nullopt: it is not over, or all was shown.
  std::optional<LeftOut> take_left_out(TimePoint now);
  LeftOut take_rest();                         // at the end of the stream
  std::optional<TimePoint> next_tick() const;  // for take_left_out()

 private:
  std::uint64_t allowed_;
  TimePoint second_{};  // the one that `shown_` and `left_out_` are of
  std::uint64_t shown_ = 0;
  LeftOut left_out_;
  bool within_ = false;    // a line that is shown
  bool skipping_ = false;  // a line that is left out
};

// Returns "51,234 lines (5.1 MB) of rank 3 on n2 were left out (--output-rate)".
std::string describe_left_out(const LineRate::LeftOut& left_out, const std::string& whose);

}  // namespace ddprun::output
