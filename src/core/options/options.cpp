#include "options/options.hpp"

#include <fmt/format.h>

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

}  // namespace ddprun::options
