// Signals by name and by number.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "base/error.hpp"
#include "base/text.hpp"
#include "options/options.hpp"

namespace ddprun::options {

namespace {

struct NamedSignal {
  const char* name;
  int number;
};

// signal(7); where two names share a number, the first is the one that is printed.
constexpr NamedSignal k_signals[] = {
    {"SIGHUP", SIGHUP},       {"SIGINT", SIGINT},   {"SIGQUIT", SIGQUIT},     {"SIGILL", SIGILL},
    {"SIGTRAP", SIGTRAP},     {"SIGABRT", SIGABRT}, {"SIGBUS", SIGBUS},       {"SIGFPE", SIGFPE},
    {"SIGKILL", SIGKILL},     {"SIGUSR1", SIGUSR1}, {"SIGSEGV", SIGSEGV},     {"SIGUSR2", SIGUSR2},
    {"SIGPIPE", SIGPIPE},     {"SIGALRM", SIGALRM}, {"SIGTERM", SIGTERM},     {"SIGCHLD", SIGCHLD},
    {"SIGCONT", SIGCONT},     {"SIGSTOP", SIGSTOP}, {"SIGTSTP", SIGTSTP},     {"SIGTTIN", SIGTTIN},
    {"SIGTTOU", SIGTTOU},     {"SIGURG", SIGURG},   {"SIGXCPU", SIGXCPU},     {"SIGXFSZ", SIGXFSZ},
    {"SIGVTALRM", SIGVTALRM}, {"SIGPROF", SIGPROF}, {"SIGWINCH", SIGWINCH},   {"SIGIO", SIGIO},
    {"SIGPWR", SIGPWR},       {"SIGSYS", SIGSYS},   {"SIGSTKFLT", SIGSTKFLT}, {"SIGPOLL", SIGPOLL},
};

// Parses "RTMIN+2", "RTMAX-1", "RTMIN"; the name comes in capitals and without SIG.
std::optional<int> parse_real_time(std::string_view name) {
  const bool from_least = name.starts_with("RTMIN");
  if (!from_least && !name.starts_with("RTMAX")) return std::nullopt;
  const std::string_view rest = name.substr(5);
  if (rest.empty()) return from_least ? SIGRTMIN : SIGRTMAX;
  const auto steps = parse_integer(rest.substr(1));
  if (rest.front() != (from_least ? '+' : '-') || !steps || *steps < 0 || *steps > SIGRTMAX - SIGRTMIN) {
    return std::nullopt;
  }
  const int distance = static_cast<int>(*steps);
  return from_least ? SIGRTMIN + distance : SIGRTMAX - distance;
}

std::string suggest_signal(std::string_view text) {
  std::string word = to_upper(text);
  if (word.starts_with("SIG")) word.erase(0, 3);
  std::vector<std::string> names;
  for (const NamedSignal& signal : k_signals) names.emplace_back(signal.name + 3);
  const auto match = closest_match(word, names);
  return match ? fmt::format("did you mean SIG{}?", *match)
               : "name signals as in SIGTERM,SIGUSR1 or by number; kill -l lists them";
}

// Reports whether it can mean "stop": KILL and STOP cannot be caught; CHLD comes whenever a worker ends.
bool can_mean_stop(int number) { return number != SIGKILL && number != SIGSTOP && number != SIGCHLD; }

}  // namespace

std::optional<int> parse_signal(std::string_view text) {
  if (const auto number = parse_integer(text)) {
    // The C library keeps the first real-time signals of the kernel to itself.
    const bool usual = *number >= 1 && *number <= SIGSYS;
    if (!usual && (*number < SIGRTMIN || *number > SIGRTMAX)) return std::nullopt;
    return static_cast<int>(*number);
  }
  std::string name = to_upper(text);
  if (name.starts_with("SIG")) name.erase(0, 3);
  for (const NamedSignal& signal : k_signals) {
    if (std::string_view(signal.name).substr(3) == name) return signal.number;
  }
  return parse_real_time(name);
}

std::vector<int> parse_signals(const std::string& text, const std::string& origin) {
  std::vector<int> numbers;
  for (const std::string& part : split(text, ',')) {
    const std::string_view word = trim(part);
    const auto number = parse_signal(word);
    if (!number) {
      throw UsageError(fmt::format("{} names an unknown signal: '{}'", origin, printable(word)),
                       suggest_signal(word));
    }
    if (!can_mean_stop(*number)) {
      throw UsageError(
          fmt::format("{} names {}, which cannot be a request to stop", origin, signal_name(*number)),
          "leave it out; SIGTERM,SIGINT,SIGHUP,SIGQUIT is the default");
    }
    if (std::ranges::find(numbers, *number) == numbers.end()) numbers.push_back(*number);
  }
  return numbers;
}

std::string signal_name(int number) {
  for (const NamedSignal& signal : k_signals) {
    if (signal.number == number) return signal.name;
  }
  if (number == SIGRTMIN) return "SIGRTMIN";
  if (number > SIGRTMIN && number <= SIGRTMAX) return fmt::format("SIGRTMIN+{}", number - SIGRTMIN);
  return fmt::format("signal {}", number);
}

}  // namespace ddprun::options
