#include "allocation/node_regex.hpp"

#include <fmt/format.h>

#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

constexpr std::int64_t k_max_width = 18;  // any number of so many digits fits 64 bits

struct Piece {
  std::string_view text;
  const std::string& variable;

  [[noreturn]] void fail(std::string_view why) const {
    throw Error(fmt::format("{} is not a list of hosts: {} in \"{}\"", variable, why, printable(text, 80)),
                "such a list looks like n[1:1-3,7]@0(4); clear the variable if it was set manually");
  }
};

std::int64_t parse_number(std::string_view text, const Piece& piece) {
  const auto number =
      text.empty() || text.front() == '-' || text.size() > k_max_width ? std::nullopt : parse_integer(text);
  if (!number) piece.fail(fmt::format("\"{}\" is not a number", printable(text, 40)));
  return *number;
}

void append_name(std::string name, const Piece& piece, std::vector<std::string>& hosts) {
  if (!is_host_name(name)) piece.fail(fmt::format("\"{}\" is not a name", printable(name, 40)));
  if (hosts.size() >= k_max_hosts) piece.fail(fmt::format("more than {} hosts", k_max_hosts));
  hosts.push_back(std::move(name));
}

void append_names(const Piece& piece, std::vector<std::string>& hosts) {
  const std::string_view text = piece.text;
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos) return append_name(std::string(text), piece, hosts);
  const std::size_t close = text.find(']', open);
  const std::size_t colon = text.find(':', open);
  if (close == std::string_view::npos) piece.fail("a '[' without ']'");
  if (colon > close) piece.fail("no width before the ranges");
  const std::int64_t width = parse_number(text.substr(open + 1, colon - open - 1), piece);
  if (width > k_max_width) piece.fail(fmt::format("numbers of more than {} digits", k_max_width));
  for (const std::string& range : split(text.substr(colon + 1, close - colon - 1), ',')) {
    const std::string_view bounds = range;
    const std::size_t dash = bounds.find('-');
    const std::int64_t low = parse_number(bounds.substr(0, dash), piece);
    const std::int64_t high =
        dash == std::string_view::npos ? low : parse_number(bounds.substr(dash + 1), piece);
    if (high < low) piece.fail(fmt::format("range {} runs backwards", range));
    if (high - low >= static_cast<std::int64_t>(k_max_hosts))
      piece.fail(fmt::format("range {} has more than {} hosts", range, k_max_hosts));
    for (std::int64_t number = low; number <= high; ++number)
      append_name(fmt::format("{}{:0{}}{}", text.substr(0, open), number, width, text.substr(close + 1)),
                  piece, hosts);
  }
}

}  // namespace

std::vector<std::string> expand_node_regex(std::string_view text, const std::string& variable) {
  const std::string_view names = text.substr(0, text.find('@'));
  std::vector<std::string> hosts;
  std::size_t start = 0;
  bool bracketed = false;
  for (std::size_t i = 0; i <= names.size(); ++i) {
    if (i < names.size()) {
      if (names[i] == '[') bracketed = true;
      if (names[i] == ']') bracketed = false;
      if (bracketed || names[i] != ',') continue;
    }
    append_names({names.substr(start, i - start), variable}, hosts);
    start = i + 1;
  }
  return hosts;
}

}  // namespace ddprun::allocation
