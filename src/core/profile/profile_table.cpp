#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "base/text.hpp"
#include "output/line_folder.hpp"
#include "profile/rank_profile.hpp"
#include "status/python_threads.hpp"

namespace ddprun::profile {

namespace {

constexpr double k_differs = 0.1, k_least_shown = 0.005;
constexpr std::size_t k_most_places = 15, k_most_differences = 10, k_most_unseen = 16;

struct Place {
  std::vector<double> shares;  // shares of all ranks
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
  std::vector<const status::Frame*> own;  // innermost own call of each call's stack
  for (const Call& call : thread->calls) {
    const status::Frame& frame = rank.frames[static_cast<std::size_t>(call.frame)];
    own.push_back(status::is_own(frame) ? &frame
                  : call.caller < 0     ? nullptr
                                        : own[static_cast<std::size_t>(call.caller)]);
    if (call.microseconds == 0) continue;
    const status::Frame& at = own.back() != nullptr ? *own.back() : frame;
    Place& place = places[{at.file, at.function}];
    const double share = static_cast<double>(call.microseconds) / static_cast<double>(sum);
    place.shares.resize(index + 1);
    place.shares[index] += share;
    place.lines[at.line] += share;
  }
  return sum > 0;
}

std::string name_of(const Places::value_type& place) {
  const auto line =
      std::ranges::max_element(place.second.lines, {}, [](const auto& each) { return each.second; });
  return status::describe(status::Frame{place.first.first, line->first, place.first.second});
}

long percent(double share) { return std::lround(100 * share); }

// Returns "rank 5: 31 % at data.py:88 in decode; the others 4 %", by how much it is more; empty: none
// differs.
std::pair<double, std::string> find_difference(const Places::value_type& place,
                                               const std::vector<int>& ranks) {
  const std::vector<double>& shares = place.second.shares;
  std::vector<double> sorted = shares;
  std::ranges::sort(sorted);
  const double usual = sorted[(sorted.size() - 1) / 2], most = sorted.back();
  std::vector<int> named;
  double least = most, others = place.second.mean * static_cast<double>(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (shares[i] - usual <= k_differs) continue;
    named.push_back(ranks[i]);
    least = std::min(least, shares[i]);
    others -= shares[i];
  }
  if (named.empty()) return {};
  const auto rest = static_cast<double>(ranks.size() - named.size());
  const std::string range = percent(least) == percent(most) ? "" : fmt::format("{} to ", percent(least));
  return {most - usual,
          fmt::format("{} {}: {}{} % at {}; the others {} %\n", named.size() == 1 ? "rank" : "ranks",
                      output::describe_rank_list(named), range, percent(most), name_of(place),
                      percent(std::max(others, 0.0) / rest))};
}

// Sorts texts by their numbers, the highest first, and joins the first `most`.
std::string join_most(std::vector<std::pair<double, std::string>> texts, std::size_t most) {
  std::ranges::stable_sort(texts, std::greater(), [](const auto& each) { return each.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(texts.size(), most); ++i) text += texts[i].second;
  return text;
}

std::string render_places(const Places& places, const std::vector<int>& ranks) {
  std::vector<std::pair<double, std::string>> differences, rows;
  for (const auto& place : places) {
    const auto [least, most] = std::ranges::minmax(place.second.shares);
    differences.push_back(find_difference(place, ranks));
    if (place.second.mean < k_least_shown) continue;
    rows.emplace_back(place.second.mean,
                      fmt::format("{:>3} %  {:>3} %  {:>3} %  {}\n", percent(place.second.mean),
                                  percent(least), percent(most), name_of(place)));
  }
  const std::string text = join_most(std::move(differences), k_most_differences);
  return text + (text.empty() ? "" : "\n") +
         fmt::format("{:>5}  {:>5}  {:>5}  PLACE\n", "MEAN", "LEAST", "MOST") +
         join_most(std::move(rows), k_most_places);
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
    place.shares.resize(ranks.size());
    for (const double share : place.shares) place.mean += share / static_cast<double>(ranks.size());
  }
  return ranks.empty() ? unseen : render_places(places, ranks) + unseen;
}

}  // namespace ddprun::profile
