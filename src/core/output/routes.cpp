#include "output/routes.hpp"

#include "output/log_layout.hpp"

#include <algorithm>

namespace ddprun::output {

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
