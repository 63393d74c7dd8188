#include "output/output_options.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::output {

namespace {

constexpr int k_last_local_rank = 4095;

std::optional<int> parse_between(std::string_view text, std::int64_t least, std::int64_t most) {
  const auto number = parse_integer(text);
  if (!number || *number < least || *number > most) return std::nullopt;
  return static_cast<int>(*number);
}

UsageError stream_error(const std::string& text, const std::string& origin, std::string_view why) {
  return UsageError(fmt::format("{} is not a choice of streams: '{}' ({})", origin, printable(text), why),
                    "give 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or RANK:CHOICE pairs as in 0:3,12:1");
}

// Parses "8-15" or "8".
std::optional<std::pair<int, int>> parse_range(std::string_view text) {
  constexpr int k_most = std::numeric_limits<int>::max();
  const std::size_t dash = text.find('-');
  const auto first = parse_between(text.substr(0, dash), 0, k_most);
  const auto last = dash == std::string_view::npos ? first : parse_between(text.substr(dash + 1), 0, k_most);
  if (!first || !last || *last < *first) return std::nullopt;
  return std::pair{*first, *last};
}

}  // namespace

bool StreamChoice::nothing() const {
  return all == 0 && std::ranges::all_of(by_local_rank, [](const auto& entry) { return entry.second == 0; });
}

bool StreamChoice::has(LocalRank rank, Stream stream) const {
  const auto own = by_local_rank.find(rank.value);
  const int streams = own == by_local_rank.end() ? all : own->second;
  return (streams & (stream == Stream::output ? 1 : 2)) != 0;
}

StreamChoice parse_stream_choice(const std::string& text, const std::string& origin) {
  StreamChoice choice;
  const auto parse_streams = [](std::string_view part) {
    return part.size() == 1 ? parse_between(part, 0, 3) : std::nullopt;
  };
  if (text.find(':') == std::string::npos) {
    const auto streams = parse_streams(text);
    if (!streams) throw stream_error(text, origin, "it is none of 0, 1, 2, 3");
    choice.all = *streams;
    return choice;
  }
  for (const std::string& pair : split(text, ',')) {
    const std::size_t colon = std::min(pair.find(':'), pair.size());
    const auto rank = parse_between(pair.substr(0, colon), 0, k_last_local_rank);
    const auto streams = parse_streams(std::string_view(pair).substr(std::min(colon + 1, pair.size())));
    if (!rank || !streams) {
      throw stream_error(text, origin, fmt::format("'{}' is not RANK:CHOICE", printable(pair)));
    }
    if (!choice.by_local_rank.emplace(*rank, *streams).second) {
      throw stream_error(text, origin, fmt::format("rank {} is listed twice", *rank));
    }
  }
  return choice;
}

std::vector<int> parse_rank_list(const std::string& text, const std::string& origin) {
  std::set<int> ranks;
  for (const std::string& part : split(text, ',')) {
    const auto rank = parse_between(trim(part), 0, k_last_local_rank);
    if (!rank) {
      throw UsageError(fmt::format("{} is not a list of local ranks: '{}'", origin, printable(text)),
                       "give numbers from 0, separated by commas, as in 0,1,2");
    }
    ranks.insert(*rank);
  }
  return {ranks.begin(), ranks.end()};
}

bool RankRanges::has(GlobalRank rank) const {
  return all || std::ranges::any_of(ranges, [&](const auto& range) {
           return range.first <= rank.value && rank.value <= range.second;
         });
}

RankRanges parse_rank_ranges(const std::string& text, const std::string& origin) {
  RankRanges ranks;
  if (text == "all") return ranks;
  ranks.all = false;
  if (text == "none") return ranks;
  for (const std::string& part : split(text, ',')) {
    const auto range = parse_range(trim(part));
    if (!range) {
      throw UsageError(fmt::format("{} is not a list of ranks: '{}'", origin, printable(text)),
                       "give ranks and ranges separated by commas, as in 0,8-15, or all or none");
    }
    ranks.ranges.push_back(*range);
  }
  return ranks;
}

std::vector<std::string> parse_line_filters(const std::string& text) {
  std::vector<std::string> filters;
  if (text.empty()) return filters;
  filters.emplace_back();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      filters.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      filters.back() += text[i++];
    } else {
      filters.emplace_back();
    }
  }
  return filters;
}

}  // namespace ddprun::output
