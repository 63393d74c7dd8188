#include "allocation/hostlist.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <map>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

constexpr std::size_t k_max_digits = 18;  // any such number fits 64 bits

// Subject of a complaint: the variable and the comma-separated piece of it.
struct Place {
  const std::string& variable;
  std::string_view piece;

  [[noreturn]] void fail(const std::string& why) const {
    throw Error(fmt::format("{} is not a host list: {} in \"{}\"", variable, why, printable(piece, 80)),
                "a host list looks like n[1-3,7],login1; clear the variable if it was set manually");
  }
};

// "7" or "001-003"; the width is that of the low bound.
struct Range {
  std::uint64_t low = 0;
  std::size_t count = 1;
  std::size_t width = 1;
};

// Contents of a pair of brackets: at most k_max_hosts numbers.
struct Group {
  std::vector<Range> ranges;
  std::size_t count = 0;
};

// One piece of a list: texts[0] groups[0] texts[1] ... groups[n-1] texts[n]. It is counted before any of its
// names is made.
struct Pattern {
  Place place;
  std::vector<std::string> texts;
  std::vector<Group> groups;
  std::size_t count = 1;  // number of its names
};

void check_count(std::size_t hosts, const Place& place) {
  if (hosts > k_max_hosts) place.fail(fmt::format("more than {} hosts", k_max_hosts));
}

bool is_separator(char c) { return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_host_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

std::uint64_t parse_bound(std::string_view text, const Place& place) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) {
    if (text.find('x') != std::string_view::npos) {
      place.fail(fmt::format("multi-dimensional node lists are not supported: \"{}\"", printable(text, 40)));
    }
    place.fail(fmt::format("\"{}\" is not a number", printable(text, 40)));
  }
  if (text.size() > k_max_digits) place.fail(fmt::format("a number of more than {} digits", k_max_digits));
  return static_cast<std::uint64_t>(*parse_integer(text));
}

Range parse_range(std::string_view range, const Place& place) {
  const std::size_t dash = range.find('-');
  const std::string_view low_text = range.substr(0, dash);
  const std::uint64_t low = parse_bound(low_text, place);
  const std::uint64_t high =
      dash == std::string_view::npos ? low : parse_bound(range.substr(dash + 1), place);
  if (high < low) place.fail(fmt::format("range {} runs backwards", range));
  if (high - low >= k_max_hosts_per_range)
    place.fail(fmt::format("range {} has more than {} hosts", range, k_max_hosts_per_range));
  return {low, static_cast<std::size_t>(high - low) + 1, low_text.size()};
}

Group parse_group(std::string_view text, const Place& place) {
  Group group;
  for (const std::string& range : split(text, ',')) {
    group.ranges.push_back(parse_range(range, place));
    group.count += group.ranges.back().count;
    check_count(group.count, place);
  }
  return group;
}

Pattern parse_pattern(const Place& place) {
  Pattern pattern{place, {}, {}, 1};
  std::string_view rest = place.piece;
  while (true) {
    const std::size_t bracket = rest.find_first_of("[]");
    const std::string_view text = rest.substr(0, bracket);
    const auto stranger = std::find_if_not(text.begin(), text.end(), is_host_character);
    if (stranger != text.end()) {
      place.fail(fmt::format("'{}' is not allowed in host names",
                             printable(text.substr(static_cast<std::size_t>(stranger - text.begin()), 1))));
    }
    pattern.texts.emplace_back(text);
    if (bracket == std::string_view::npos) break;
    if (rest[bracket] == ']') place.fail("a ']' without '['");
    rest.remove_prefix(bracket + 1);
    const std::size_t end = rest.find_first_of("[]");
    if (end == std::string_view::npos) place.fail("a '[' without ']'");
    if (rest[end] == '[') place.fail("a '[' inside brackets");
    pattern.groups.push_back(parse_group(rest.substr(0, end), place));
    rest.remove_prefix(end + 1);
  }
  for (const Group& group : pattern.groups) {
    pattern.count *= group.count;  // both factors are at most k_max_hosts
    check_count(pattern.count, place);
  }
  return pattern;
}

struct HostList {
  std::vector<Pattern> patterns;
  std::size_t count = 0;  // number of all names, at most k_max_hosts
};

HostList parse_list(std::string_view text, const std::string& variable) {
  HostList list;
  std::size_t start = 0;
  bool bracketed = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) {
      if (text[i] == '[') bracketed = true;
      if (text[i] == ']') bracketed = false;
      if (bracketed || !is_separator(text[i])) continue;
    }
    const Place place{variable, text.substr(start, i - start)};
    start = i + 1;
    if (place.piece.empty()) continue;
    list.patterns.push_back(parse_pattern(place));
    list.count += list.patterns.back().count;
    check_count(list.count, place);
  }
  return list;
}

// Returns the groups from the slowest to the fastest. libslurm pushes the last bracket as ranges and recurses
// leftwards through the others, so that a[1-2]b[3-4]c[5-6] is c fastest, then a, then b.
std::vector<std::size_t> turning_order(std::size_t groups) {
  std::vector<std::size_t> order;
  for (std::size_t i = groups - 1; i-- > 0;) order.push_back(i);
  order.push_back(groups - 1);
  return order;
}

std::vector<std::string> expand_group(const Group& group) {
  std::vector<std::string> values;
  values.reserve(group.count);
  for (const Range& range : group.ranges) {
    for (std::size_t i = 0; i < range.count; ++i)
      values.push_back(fmt::format("{:0{}}", range.low + i, range.width));
  }
  return values;
}

using Values = std::vector<std::vector<std::string>>;  // one list for each group

std::string fill_pattern(const Pattern& pattern, const Values& values,
                         const std::vector<std::size_t>& chosen) {
  std::string name = pattern.texts[0];
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    name += values[i][chosen[i]];
    name += pattern.texts[i + 1];
  }
  return name;
}

void append_names(const Pattern& pattern, std::vector<std::string>& hosts) {
  Values values;
  for (const Group& group : pattern.groups) values.push_back(expand_group(group));
  const auto order = values.empty() ? std::vector<std::size_t>{} : turning_order(values.size());
  std::vector<std::size_t> chosen(values.size(), 0);
  for (std::size_t count = pattern.count; count > 0; --count) {
    hosts.push_back(fill_pattern(pattern, values, chosen));
    if (hosts.back().size() > k_max_host_name)
      pattern.place.fail(fmt::format("a name of more than {} bytes", k_max_host_name));
    for (auto group = order.rbegin(); group != order.rend(); ++group) {
      if (++chosen[*group] < values[*group].size()) break;
      chosen[*group] = 0;
    }
  }
}

// A name that ends in digits, for grouping: "nid0012" is {"nid", "0012", 12}.
struct Numbered {
  std::string_view prefix;
  std::string_view digits;
  std::uint64_t number = 0;
};

Numbered split_number(std::string_view name) {
  std::size_t start = name.size();
  while (start > 0 && is_digit(name[start - 1]) && name.size() - start < k_max_digits) --start;
  Numbered result{name.substr(0, start), name.substr(start), 0};
  if (!result.digits.empty()) result.number = static_cast<std::uint64_t>(*parse_integer(result.digits));
  return result;
}

// Reports whether `next` continues a range "low-high" that ends in `last`: its width must be what the low
// bound's width makes of it.
bool continues(const Numbered& low, const Numbered& last, const Numbered& next) {
  return next.number == last.number + 1 &&
         next.digits == fmt::format("{:0{}}", next.number, low.digits.size());
}

// Counts the zeros that every name of the group starts with, leaving at least one digit.
std::size_t shared_zeros(const std::vector<Numbered>& names) {
  std::size_t shared = names[0].digits.size() - 1;
  for (const Numbered& name : names) {
    const bool same_width = name.digits.size() == names[0].digits.size();
    const std::size_t first = std::min(name.digits.find_first_not_of('0'), name.digits.size() - 1);
    shared = same_width ? std::min(shared, first) : 0;
  }
  return shared;
}

std::string render_group(const std::vector<Numbered>& names) {
  if (names.size() == 1) return fmt::format("{}{}", names[0].prefix, names[0].digits);
  const std::size_t zeros = shared_zeros(names);
  std::vector<std::string> ranges;
  for (std::size_t start = 0; start < names.size();) {
    std::size_t end = start;
    while (end + 1 < names.size() && end + 1 - start < k_max_hosts_per_range &&
           continues(names[start], names[end], names[end + 1]))
      ++end;
    const std::string_view low = names[start].digits.substr(zeros);
    const std::string_view high = names[end].digits.substr(zeros);
    ranges.push_back(end == start ? std::string(low) : fmt::format("{}-{}", low, high));
    start = end + 1;
  }
  const std::string inside = join(ranges, ",");
  return fmt::format("{}{}[{}]", names[0].prefix, names[0].digits.substr(0, zeros), inside);
}

}  // namespace

bool is_host_name(std::string_view name) {
  return !name.empty() && name.size() <= k_max_host_name && name.front() != '-' && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_host_character);
}

std::optional<int> find_host(const std::vector<std::string>& hosts, std::string_view host) {
  const auto found = std::find_if(hosts.begin(), hosts.end(),
                                  [&](const std::string& candidate) { return same_host(candidate, host); });
  if (found == hosts.end()) return std::nullopt;
  return static_cast<int>(found - hosts.begin());
}

std::size_t count_hostlist(std::string_view text, const std::string& variable) {
  return parse_list(text, variable).count;
}

std::vector<std::string> expand_hostlist(std::string_view text, const std::string& variable) {
  const HostList list = parse_list(text, variable);
  std::vector<std::string> hosts;
  hosts.reserve(list.count);
  for (const Pattern& pattern : list.patterns) append_names(pattern, hosts);
  return hosts;
}

std::string compress_hostlist(const std::vector<std::string>& hosts) {
  std::vector<std::string> pieces;
  std::vector<Numbered> group;
  for (const std::string& host : hosts) {
    const Numbered name = split_number(host);
    const bool joins =
        !group.empty() && !name.digits.empty() && !group[0].digits.empty() && name.prefix == group[0].prefix;
    if (!joins && !group.empty()) {
      pieces.push_back(render_group(group));
      group.clear();
    }
    group.push_back(name);
  }
  if (!group.empty()) pieces.push_back(render_group(group));
  return join(pieces, ",");
}

namespace {

constexpr std::size_t k_max_numbers = k_max_hosts;

[[noreturn]] void fail(const std::string& variable, const char* what, std::string_view piece,
                       const char* example) {
  throw Error(
      fmt::format("{} is not a list of {}: invalid entry \"{}\"", variable, what, printable(piece, 80)),
      fmt::format("such a list looks like {}; clear the variable if it was set manually", example));
}

int parse_in_range(std::string_view text, int least, int most) {
  const auto value = text.empty() || text[0] == '-' ? std::nullopt : parse_integer(text);
  return value && *value >= least && *value <= most ? static_cast<int>(*value) : -1;
}

}  // namespace

std::vector<int> expand_counts(std::string_view text, const std::string& variable) {
  std::vector<int> counts;
  for (const std::string& piece : split(text, ',')) {
    const std::size_t bracket = piece.find("(x");
    const bool repeated = bracket != std::string::npos && piece.back() == ')';
    const std::string_view whole = piece;
    const int count = parse_in_range(whole.substr(0, bracket), 1, std::numeric_limits<int>::max());
    int times = 1;
    if (bracket != std::string::npos) {
      times = repeated ? parse_in_range(whole.substr(bracket + 2, piece.size() - bracket - 3), 1,
                                        static_cast<int>(k_max_numbers))
                       : -1;
    }
    if (count < 0 || times < 0 || counts.size() + static_cast<std::size_t>(times) > k_max_numbers)
      fail(variable, "counts", piece, "4(x2),3");
    counts.insert(counts.end(), static_cast<std::size_t>(times), count);
  }
  return counts;
}

std::vector<int> expand_numbers(std::string_view text, const std::string& variable, int most) {
  std::vector<int> numbers;
  for (const std::string& piece : split(text, ',')) {
    const std::size_t dash = piece.find('-');
    const std::string_view whole = piece;
    const int low = parse_in_range(whole.substr(0, dash), 0, most);
    const int high = dash == std::string::npos ? low : parse_in_range(whole.substr(dash + 1), 0, most);
    if (low < 0 || high < low ||
        numbers.size() + static_cast<std::size_t>(high) - static_cast<std::size_t>(low) >= k_max_numbers)
      fail(variable, "numbers", piece, "0-3,7");
    for (int number = low;; ++number) {
      numbers.push_back(number);
      if (number == high) break;
    }
  }
  return numbers;
}

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

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(fmt::format("the node file {} {}", printable(path), why),
              "the scheduler writes one host name per line; clear the variable if it was set manually");
}

}  // namespace

NodeFile parse_node_file(const std::string& contents, const std::string& path) {
  if (contents.size() > k_node_file_limit)
    fail(path, fmt::format("is longer than {} bytes", k_node_file_limit));
  NodeFile file;
  std::map<std::string, std::size_t> places;
  int line_number = 0;
  for (const std::string& line : split(contents, '\n')) {
    ++line_number;
    const std::string_view name = trim(line);
    if (name.empty()) continue;
    if (name.size() > k_max_host_name)
      fail(path, fmt::format("has more than {} bytes in line {}", k_max_host_name, line_number));
    if (!is_host_name(name)) {
      fail(path, fmt::format("names no host in line {}: \"{}\"", line_number, printable(name, 80)));
    }
    const auto [place, added] = places.emplace(to_lower(short_host_name(name)), file.hosts.size());
    if (added) {
      file.hosts.emplace_back(name);
      file.slots.push_back(0);
    }
    ++file.slots[place->second];
  }
  if (file.hosts.empty()) fail(path, "is empty");
  return file;
}

}  // namespace ddprun::allocation
