#include "options/restart_options.hpp"

#include <fmt/format.h>
#include <csignal>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "options/options.hpp"

namespace ddprun::options {

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
