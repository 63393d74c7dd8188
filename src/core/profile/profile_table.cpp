#include "profile/profile_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "inspect/python_threads.hpp"
#include "output/line_folder.hpp"

namespace ddprun::profile {

namespace {

constexpr double k_differs = 0.1, k_least_shown = 0.005;
constexpr std::size_t k_most_places = 15, k_most_differences = 10, k_most_unseen = 16;

struct Place {
  std::map<std::size_t, double> shares;  // indexed by rank; missing: none
  std::map<int, double> lines;
  double mean = 0;
};

using Places = std::map<std::pair<std::string, std::string>, Place>;  // keyed by file and function

// Adds a rank's shares of its main thread. False without samples.
bool add_rank(Places& places, const RankProfile& rank, std::size_t index) {
  const auto thread = std::ranges::find_if(rank.threads, &ThreadProfile::main);
  if (thread == rank.threads.end()) return false;
  std::int64_t sum = 0;
  for (const Call& call : thread->calls) sum += call.microseconds;
  if (sum == 0) return false;
  std::vector<const inspect::Frame*> own;  // innermost own call of each call's stack
  for (const Call& call : thread->calls) {
    const inspect::Frame& frame = rank.frames[static_cast<std::size_t>(call.frame)];
    own.push_back(inspect::is_own(frame) ? &frame
                  : call.caller < 0      ? nullptr
                                         : own[static_cast<std::size_t>(call.caller)]);
    if (call.microseconds == 0) continue;
    const inspect::Frame& at = own.back() != nullptr ? *own.back() : frame;
    Place& place = places[{at.file, at.function}];
    const double share = static_cast<double>(call.microseconds) / static_cast<double>(sum);
    place.shares[index] += share;
    place.lines[at.line] += share;
  }
  return true;
}

std::string name_of(const Places::value_type& place) {
  const auto line =
      std::ranges::max_element(place.second.lines, {}, [](const auto& each) { return each.second; });
  return inspect::describe(inspect::Frame{place.first.first, line->first, place.first.second});
}

long percent(double share) { return std::lround(100 * share); }

// Lower median of the shares of all ranks.
double median(const Place& place, std::size_t ranks) {
  std::vector<double> shares(ranks - place.shares.size(), 0.0);
  for (const auto& [rank, share] : place.shares) shares.push_back(share);
  std::ranges::sort(shares);
  return shares[(ranks - 1) / 2];
}

struct Difference {
  double excess = 0;
  std::string text;
};

// Returns "rank 5: 31 % at data.py:88 in decode; the others 4 %".
std::optional<Difference> find_difference(const Places::value_type& place, const std::vector<int>& ranks) {
  const double usual = median(place.second, ranks.size());
  std::vector<int> named;
  double least = 1, most = 0, others = place.second.mean * static_cast<double>(ranks.size());
  for (const auto& [index, share] : place.second.shares) {
    if (share - usual <= k_differs) continue;
    named.push_back(ranks[index]);
    least = std::min(least, share);
    most = std::max(most, share);
    others -= share;
  }
  if (named.empty()) return std::nullopt;
  const auto rest = static_cast<double>(ranks.size() - named.size());
  const std::string range = percent(least) == percent(most) ? "" : fmt::format("{} to ", percent(least));
  return Difference{most - usual,
                    fmt::format("{} {}: {}{} % at {}; the others {} %\n",
                                named.size() == 1 ? "rank" : "ranks", output::describe_rank_list(named),
                                range, percent(most), name_of(place), percent(std::max(others, 0.0) / rest))};
}

std::string render_differences(const Places& places, const std::vector<int>& ranks) {
  std::vector<Difference> found;
  for (const auto& place : places) {
    if (auto difference = find_difference(place, ranks)) found.push_back(std::move(*difference));
  }
  std::ranges::stable_sort(found, std::greater(), &Difference::excess);
  found.resize(std::min(found.size(), k_most_differences));
  std::string text;
  for (const Difference& each : found) text += each.text;
  return text.empty() ? "" : text + "\n";
}

std::string render_places(const Places& places, std::size_t ranks) {
  std::vector<const Places::value_type*> sorted;
  for (const auto& place : places) sorted.push_back(&place);
  std::ranges::stable_sort(sorted, std::greater(), [](const auto* place) { return place->second.mean; });
  sorted.resize(std::min(sorted.size(), k_most_places));
  std::string text = fmt::format("{:>5}  {:>5}  {:>5}  PLACE\n", "MEAN", "LEAST", "MOST");
  for (const auto* const place : sorted) {
    if (place->second.mean < k_least_shown) break;
    double least = place->second.shares.size() < ranks ? 0 : 1, most = 0;
    for (const auto& [rank, share] : place->second.shares) {
      least = std::min(least, share);
      most = std::max(most, share);
    }
    text += fmt::format("{:>3} %  {:>3} %  {:>3} %  {}\n", percent(place->second.mean), percent(least),
                        percent(most), name_of(*place));
  }
  return text;
}

}  // namespace

std::string render_table(const JobProfile& job) {
  Places places;
  std::vector<int> ranks;
  std::string unseen;
  std::size_t count = 0;
  for (const RankProfile& rank : job.ranks) {
    if (add_rank(places, rank, ranks.size())) {
      ranks.push_back(rank.rank);
    } else if (++count <= k_most_unseen) {
      unseen += fmt::format("rank {} on {} (pid {}) is not in it: {}\n", rank.rank, printable(rank.host, 64),
                            rank.pid, printable(rank.unseen.empty() ? "no samples" : rank.unseen, 160));
    }
  }
  if (count > k_most_unseen) unseen += fmt::format("{} more ranks are not in it\n", count - k_most_unseen);
  if (!job.silent.empty())
    unseen += fmt::format("no answer from {}\n", printable(join(job.silent, ", "), 4096));
  for (auto& [at, place] : places) {
    for (const auto& [rank, share] : place.shares) place.mean += share / static_cast<double>(ranks.size());
  }
  if (ranks.empty()) return unseen;
  return render_differences(places, ranks) + render_places(places, ranks.size()) + unseen;
}

}  // namespace ddprun::profile
