#include "options/hang_options.hpp"

#include <string>

#include "base/text.hpp"

namespace ddprun::options {

std::optional<SlowNotice> parse_slow_notice(std::string_view text) {
  const std::size_t slash = text.find('/');
  std::string_view share = text.substr(0, slash);
  if (!share.ends_with('%')) return std::nullopt;
  share.remove_suffix(1);
  const auto percent = parse_integer(share);
  if (!percent || *percent < 1 || *percent > 99) return std::nullopt;
  SlowNotice notice{static_cast<double>(*percent) / 100};
  if (slash == std::string_view::npos) return notice;
  const auto window = parse_duration(text.substr(slash + 1));
  if (!window || *window < k_shortest_slow_window) return std::nullopt;
  notice.window = *window;
  return notice;
}

}  // namespace ddprun::options
