#include "options/options.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <csignal>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::options {

namespace {

constexpr std::int64_t k_most_nodes = 100000;
constexpr std::size_t k_most_conf_length = 4096;

std::optional<int> parse_between(std::string_view text, std::int64_t least, std::int64_t most) {
  const auto number = parse_integer(text);
  if (!number || *number < least || *number > most) return std::nullopt;
  return static_cast<int>(*number);
}

UsageError conf_error(const std::string& origin, const std::string& why) {
  return UsageError(fmt::format("{} {}", origin, why), "write it as KEY=VALUE,KEY=VALUE");
}

bool is_quote(char c) { return c == '\'' || c == '"'; }

// Returns the text without one pair of quotes around it.
std::string_view unquote(std::string_view text) {
  text = trim(text);
  if (text.size() < 2 || !is_quote(text.front()) || text.back() != text.front()) return text;
  const std::string_view inner = text.substr(1, text.size() - 2);
  return inner.find(text.front()) == std::string_view::npos ? trim(inner) : text;
}

// Returns the pieces between commas that are not in quotes; nullopt when a quote is not closed.
std::optional<std::vector<std::string>> split_outside_quotes(std::string_view text) {
  std::vector<std::string> pieces(1);
  char open = '\0';
  for (const char c : text) {
    if (c == ',' && open == '\0') {
      pieces.emplace_back();
      continue;
    }
    if (open == c) {
      open = '\0';
    } else if (open == '\0' && is_quote(c)) {
      open = c;
    }
    pieces.back() += c;
  }
  if (open != '\0') return std::nullopt;
  return pieces;
}

}  // namespace

NodeRange parse_node_range(const std::string& text, const std::string& origin) {
  const std::vector<std::string> parts = split(text, ':');
  const auto least = parse_between(parts.front(), 1, k_most_nodes);
  const auto most = parse_between(parts.back(), 1, k_most_nodes);
  if (parts.size() > 2 || !least || !most) {
    throw UsageError(fmt::format("{} is not a number of nodes: '{}'", origin, printable(text)),
                     "give a number above 0, or MIN:MAX");
  }
  if (*least > *most) {
    throw UsageError(fmt::format("{} has MIN above MAX: '{}'", origin, printable(text)),
                     fmt::format("write {}:{}", *most, *least));
  }
  return {*least, *most};
}

WorkersPerNode parse_workers_per_node(const std::string& text, const std::string& origin) {
  static const std::map<std::string, WorkersKind> k_words{{"auto", WorkersKind::auto_count},
                                                          {"gpu", WorkersKind::gpu},
                                                          {"cpu", WorkersKind::cpu},
                                                          {"xpu", WorkersKind::xpu}};
  if (const auto word = k_words.find(text); word != k_words.end()) return {word->second, 0, origin};
  const auto number = parse_between(text, 1, k_max_workers);
  if (!number) {
    throw UsageError(fmt::format("{} is not a number of workers: '{}'", origin, printable(text)),
                     fmt::format("give a number from 1 to {}, or auto, gpu, cpu or xpu", k_max_workers));
  }
  return {WorkersKind::number, *number, origin};
}

std::map<std::string, std::string> parse_rendezvous_conf(const std::string& text, const std::string& origin) {
  if (text.size() > k_most_conf_length) {
    throw conf_error(origin, fmt::format("is longer than {} characters", k_most_conf_length));
  }
  std::map<std::string, std::string> conf;
  const std::string_view whole = unquote(text);
  if (whole.empty()) return conf;
  const auto pairs = split_outside_quotes(whole);
  if (!pairs) throw conf_error(origin, fmt::format("has a quote that is not closed: '{}'", printable(text)));
  for (const std::string& quoted_pair : *pairs) {
    const std::string_view pair = unquote(quoted_pair);
    const std::size_t equals = pair.find('=');
    const std::string key(unquote(pair.substr(0, equals)));
    if (key.empty()) throw conf_error(origin, fmt::format("has a part without a key: '{}'", printable(text)));
    const std::string value(equals == std::string_view::npos ? std::string_view()
                                                             : unquote(pair.substr(equals + 1)));
    if (value.empty()) throw conf_error(origin, fmt::format("gives no value to '{}'", printable(key)));
    conf[key] = value;
  }
  return conf;
}

// Signals by name and by number.

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

// Addresses as users write them.

namespace {

constexpr std::size_t k_longest_host = 253;  // RFC 1035, 2.3.4, without the length bytes

bool is_host_name(std::string_view text) {
  return !text.empty() && text.size() <= k_longest_host && text.front() != '-' &&
         std::ranges::all_of(
             text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_'; });
}

bool is_hex_group(std::string_view group) {
  return !group.empty() && group.size() <= 4 &&
         std::ranges::all_of(group, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

bool is_ipv4(std::string_view text) {
  const std::vector<std::string> parts = split(text, '.');
  return parts.size() == 4 && std::ranges::all_of(parts, [](const std::string& part) {
           const auto number = parse_integer(part);
           return part.size() <= 3 && number && part.front() != '-' && *number <= 255;
         });
}

// Follows RFC 4291, 2.2, with an optional "%scope": eight groups, or fewer and one "::"; the last two may be
// IPv4.
bool is_ipv6(std::string_view text) {
  const std::size_t scope = text.find('%');
  if (scope != std::string_view::npos && !is_host_name(text.substr(scope + 1))) return false;
  text = text.substr(0, scope);
  const std::size_t gap = text.find("::");
  if (gap != std::string_view::npos && text.find("::", gap + 1) != std::string_view::npos) return false;
  std::size_t groups = 0;
  const auto count_groups = [&groups](std::string_view half) {
    if (half.empty()) return true;
    std::vector<std::string> parts = split(half, ':');
    if (is_ipv4(parts.back())) {
      parts.back() = "0";
      ++groups;
    }
    groups += parts.size();
    return std::ranges::all_of(parts, is_hex_group);
  };
  if (gap == std::string_view::npos) return count_groups(text) && groups == 8;
  return count_groups(text.substr(0, gap)) && count_groups(text.substr(gap + 2)) && groups <= 7;
}

UsageError not_an_address(const std::string& text, const std::string& origin) {
  return UsageError(fmt::format("{} is not an address: '{}'", origin, printable(text)),
                    "give HOST, HOST:PORT or, for IPv6 with a port, [ADDRESS]:PORT");
}

}  // namespace

Endpoint parse_endpoint(const std::string& text, const std::string& origin) {
  const std::string_view whole = trim(text);
  std::string_view host = whole;
  std::optional<std::string_view> port;
  const bool brackets = whole.starts_with('[');
  if (brackets) {
    const std::size_t close = whole.find(']');
    if (close == std::string_view::npos) throw not_an_address(text, origin);
    host = whole.substr(1, close - 1);
    const std::string_view rest = whole.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') throw not_an_address(text, origin);
    if (!rest.empty()) port = rest.substr(1);
  } else if (const std::size_t colon = whole.find(':');
             colon != std::string_view::npos && colon == whole.rfind(':')) {
    host = whole.substr(0, colon);
    port = whole.substr(colon + 1);
  }
  const bool colons = host.find(':') != std::string_view::npos;
  if (brackets || colons ? !is_ipv6(host) : !is_host_name(host)) throw not_an_address(text, origin);
  if (!port) return {std::string(host), std::nullopt};
  const auto number = parse_integer(*port);
  if (!number || *number < 0 || *number > 65535) {
    throw UsageError(fmt::format("{} has an invalid port: '{}'", origin, printable(text)),
                     "a port is a number from 0 to 65535");
  }
  return {std::string(host), static_cast<int>(*number)};
}

std::string parse_host(const std::string& text, const std::string& origin) {
  Endpoint endpoint = parse_endpoint(text, origin);
  if (endpoint.port) {
    throw UsageError(fmt::format("{} accepts no port: '{}'", origin, printable(text)),
                     fmt::format("give the address alone, {}", printable(endpoint.host)));
  }
  return endpoint.host;
}

}  // namespace ddprun::options
