// Limits of a stream: its last lines, for failure reports, and its shown bytes per second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::output {

// The last lines of a stream, as a terminal would have left them: for failure reports.

class LineTail {
 public:
  static constexpr std::size_t k_lines = 20;
  static constexpr std::size_t k_line_length = 1024;  // bytes; the rest of a longer line is dropped

  explicit LineTail(std::size_t lines = k_lines) : limit_(lines) {}

  void add(std::string_view text);
  // Returns the lines, oldest first, the unfinished last one too; without line ends. Text after a '\r'
  // replaces what was before it on its line, so of a progress bar only the last state stays.
  std::vector<std::string> lines() const;

 private:
  void add_within_line(std::string_view text);
  void end_line();

  std::size_t limit_;
  std::deque<std::string> ended_;
  std::string current_;
  bool returned_ = false;  // a '\r' came last: the next text starts the line anew
};

// Limit of a stream's shown bytes per second.
// Whole lines are shown as far as it allows; the bytes beyond are counted. A line that has begun is shown to
// its end.

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
