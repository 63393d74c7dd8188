#include "output/output_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "output/log_layout.hpp"

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

namespace {

constexpr std::size_t k_longest_filtered_line = std::size_t{1} << 20;

bool is_shown(const OutputOptions& options, LocalRank local_rank, GlobalRank rank) {
  const std::vector<int>& shown = options.local_ranks;
  const bool chosen = shown.empty() || std::ranges::find(shown, local_rank.value) != shown.end();
  return chosen && options.ranks.has(rank);
}

}  // namespace

bool discards_files(const OutputOptions& options) { return options.log_dir.value == "/dev/null"; }

bool wants_files(const OutputOptions& options) {
  if (!options.logs.value.empty()) return true;
  if (discards_files(options)) return false;
  return !options.log_dir.value.empty() || !options.redirects.nothing() || !options.tee.nothing() ||
         !options.output_filters.empty() || !options.error_filters.empty();
}

bool keeps_error_files(const OutputOptions& options) {
  return wants_files(options) && layout_of(options) == LogLayout::torchrun;
}

bool writes_for_workers(const OutputOptions& options) {
  return options.rotation.bytes > 0 || options.timestamps || options.compress;
}

StreamRoute route_stream(const OutputOptions& options, LocalRank local_rank, GlobalRank rank, Stream stream) {
  StreamRoute route;
  const bool shown = is_shown(options, local_rank, rank);
  if (!wants_files(options)) {
    route.console = shown;
    return route;
  }
  const bool redirected = options.redirects.has(local_rank, stream);
  const bool teed = options.tee.has(local_rank, stream);
  route.file = redirected || teed || !options.logs.value.empty();
  route.console = shown && (teed || !redirected);
  route.teed = teed && shown;
  return route;
}

LineLabel label_of(const OutputOptions& options, const StreamRoute& route, const LabelFacts& facts, int hosts,
                   bool colour) {
  if (options.label) {
    const std::string& own = options.label->value;
    const std::string plain = hosts > 1 ? k_label_of_hosts : k_label_of_one_host;
    return make_label(own.empty() ? plain : own, facts, colour, options.label->origin);
  }
  return route.teed ? make_torchrun_prefix(options.prefix_template.value, facts) : LineLabel();
}

const std::vector<std::string>& filters_of(const OutputOptions& options, Stream stream) {
  return stream == Stream::output ? options.output_filters : options.error_filters;
}

bool LineFilter::matches(std::string_view line) const {
  return std::ranges::any_of(
      needles_, [&](const std::string& needle) { return line.find(needle) != std::string_view::npos; });
}

std::string LineFilter::add(std::string_view text) {
  std::string matching;
  held_ += text;
  std::size_t start = 0;
  for (std::size_t end = held_.find('\n'); end != std::string::npos; end = held_.find('\n', start)) {
    const std::string_view line = std::string_view(held_).substr(start, end + 1 - start);
    if (matches(line)) matching.append(label_).append(line);
    start = end + 1;
  }
  held_.erase(0, start);
  if (held_.size() > k_longest_filtered_line) matching += end();
  return matching;
}

std::string LineFilter::end() {
  std::string last;
  if (!held_.empty() && matches(held_)) last = label_ + held_ + "\n";
  held_.clear();
  return last;
}

}  // namespace ddprun::output
