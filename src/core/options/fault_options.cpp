#include "options/fault_options.hpp"

#include <fmt/format.h>

#include <csignal>
#include <set>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"
#include "options/options.hpp"

namespace ddprun::options {

CheckOptions parse_check(const std::string& text, const std::string& origin) {
  CheckOptions check;
  for (const std::string& word : split(text.empty() ? "table" : text, ',')) {
    check.json |= word == "json";
    check.deep |= word == "deep";
    check.automatic |= word == "auto";
    if (word == "table" || word == "json" || word == "deep" || word == "auto") continue;
    const auto match = closest_match(word, {"table", "json", "deep", "auto"});
    throw UsageError(fmt::format("{} is not one of table, json, deep, auto: '{}'", origin, printable(word)),
                     match ? fmt::format("did you mean {}?", *match) : "give one of them, or deep,json");
  }
  check.wanted = !check.automatic;
  if (check.automatic && (check.json || check.deep))
    throw UsageError(fmt::format("{} cannot be auto and something else: '{}'", origin, printable(text)),
                     "auto runs before the job; leave it out to check and run nothing");
  return check;
}

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

std::vector<int> parse_exit_codes(const std::string& text, const std::string& origin) {
  std::set<int> codes;
  for (const std::string& word : split(text, ',')) {
    const auto code = parse_integer(trim(word));
    if (!code || *code < 1 || *code > 255) {
      const bool range = word.find('-', 1) != std::string::npos;
      throw UsageError(fmt::format("{} is not a list of exit codes: '{}'", origin, printable(text)),
                       range ? "name each code, as in 3,4,5: ranges are not accepted"
                             : "give codes from 1 to 255, as in 3 or 3,64; 128+n means signal n");
    }
    codes.insert(static_cast<int>(*code));
  }
  return {codes.begin(), codes.end()};
}

namespace {

constexpr Milliseconds k_usual_lead{60000};
constexpr Milliseconds k_longest_lead{86400000};

UsageError signal_error(const std::string& text, const std::string& origin) {
  return UsageError(
      fmt::format("{} is not SIGNAL@TIME: '{}'", origin, printable(text)),
      "give a signal and how long before the end of the job it is sent, as in USR1@120 or TERM@2m");
}

}  // namespace

SignalBeforeEnd parse_signal_before_end(const std::string& text, const std::string& origin) {
  const std::size_t at = text.find('@');
  const auto number = parse_signal(trim(text.substr(0, at)));
  if (!number || *number == SIGKILL || *number == SIGSTOP || *number == SIGCHLD)
    throw signal_error(text, origin);
  if (at == std::string::npos) return {*number, k_usual_lead};
  const auto before = parse_duration(trim(text.substr(at + 1)));
  if (!before || *before == Milliseconds{0} || *before > k_longest_lead) throw signal_error(text, origin);
  return {*number, *before};
}

}  // namespace ddprun::options
