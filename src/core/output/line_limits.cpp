#include "output/line_limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun::output {

void LineTail::add(std::string_view text) {
  // A flood matters only by its end: skip all but the last lines before looking at every byte.
  std::size_t start = text.size();
  for (std::size_t ends = 0; start > 0; --start) {
    if (text[start - 1] == '\n' && ++ends > limit_) break;
  }
  if (start > 0) {
    end_line();
    text.remove_prefix(start);
  }
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    add_within_line(text.substr(0, length));
    if (length == text.size()) return;
    end_line();
    text.remove_prefix(length + 1);
  }
}

void LineTail::add_within_line(std::string_view text) {
  while (!text.empty()) {
    if (text.front() == '\r') {
      returned_ = true;
      text.remove_prefix(1);
      continue;
    }
    if (returned_) current_.clear();
    returned_ = false;
    const std::size_t length = std::min(text.find('\r'), text.size());
    current_ += text.substr(0, std::min(length, k_line_length - current_.size()));
    text.remove_prefix(length);
  }
}

void LineTail::end_line() {
  ended_.push_back(std::move(current_));
  if (ended_.size() > limit_) ended_.pop_front();
  current_.clear();
  returned_ = false;
}

std::vector<std::string> LineTail::lines() const {
  std::vector<std::string> result(ended_.begin(), ended_.end());
  if (!current_.empty()) result.push_back(current_);
  if (result.size() > limit_) result.erase(result.begin());
  return result;
}

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
