#include "output/line_rate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun::output {

namespace {

constexpr Milliseconds k_second{1000};

std::string describe_bytes(std::uint64_t bytes) {
  constexpr double k_thousand = 1000;
  const auto size = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  if (bytes < 1000 * 1000) return fmt::format("{:.1f} kB", size / k_thousand);
  return fmt::format("{:.1f} MB", size / k_thousand / k_thousand);
}

}  // namespace

std::string LineRate::add(std::string_view text, TimePoint now) {
  if (now - second_ >= k_second) {
    second_ = now;
    shown_ = 0;
  }
  std::string shown;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    const bool whole = piece.back() == '\n';
    if (!within_ && !skipping_) skipping_ = shown_ >= allowed_;
    if (skipping_) {
      left_out_.bytes += piece.size();
      left_out_.lines += whole ? 1 : 0;
    } else {
      shown += piece;
      shown_ += piece.size();
    }
    within_ = !whole && !skipping_;
    skipping_ = !whole && skipping_;
    text.remove_prefix(piece.size());
  }
  return shown;
}

std::optional<LineRate::LeftOut> LineRate::take_left_out(TimePoint now) {
  const auto due = next_tick();
  if (!due || now < *due) return std::nullopt;
  return take_rest();
}

LineRate::LeftOut LineRate::take_rest() { return std::exchange(left_out_, {}); }

std::optional<TimePoint> LineRate::next_tick() const {
  if (left_out_.bytes == 0) return std::nullopt;
  return second_ + k_second;
}

std::string describe_left_out(const LineRate::LeftOut& left_out, const std::string& whose) {
  const std::string lines = left_out.lines == 1 ? "1 line" : fmt::format("{} lines", left_out.lines);
  return fmt::format("{} ({}) of {} omitted (--output-rate)", lines, describe_bytes(left_out.bytes), whose);
}

}  // namespace ddprun::output
