#include "base/duration.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/text.hpp"

namespace ddprun {

std::optional<Milliseconds> parse_duration(std::string_view text) {
  struct Unit {
    std::string_view suffix;
    double milliseconds;
  };
  static constexpr Unit k_units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"", 1000}};
  static constexpr double k_limit = 1e13;  // 317 years; keeps the sum with any clock in range
  for (const Unit& unit : k_units) {
    if (!text.ends_with(unit.suffix)) continue;
    const auto number = parse_number(text.substr(0, text.size() - unit.suffix.size()));
    if (!number || !std::isfinite(*number) || *number < 0 || *number * unit.milliseconds > k_limit) {
      return std::nullopt;
    }
    return Milliseconds{std::llround(*number * unit.milliseconds)};
  }
  return std::nullopt;
}

std::string describe_duration(Milliseconds duration) {
  const auto count = duration.count();
  if (count < 1000) return fmt::format("{} ms", count);
  if (count >= 7200000 && count % 3600000 == 0) return fmt::format("{} h", count / 3600000);
  if (count >= 120000 && count % 60000 == 0) return fmt::format("{} min", count / 60000);
  if (count % 1000 == 0) return fmt::format("{} s", count / 1000);
  return fmt::format("{:.1f} s", static_cast<double>(count) / 1000.0);
}

std::string describe_seconds(Milliseconds duration) {
  return describe_duration(std::chrono::floor<std::chrono::seconds>(duration));
}

}  // namespace ddprun
