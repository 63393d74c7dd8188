#include "slow/collectives.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace ddprun::slow {

namespace {

constexpr double k_recurring = 0.75;
constexpr int k_least_times = 3, k_layers = 200;

using Kinds = std::vector<std::size_t>;

// Counts how often each kind is there that may be a part of the steps.
std::map<std::size_t, int> count_kinds(const Kinds& kinds) {
  std::map<std::size_t, int> counts;
  int most = 0;
  for (const std::size_t kind : kinds) most = std::max(most, ++counts[kind]);
  std::erase_if(counts, [most](const auto& each) {
    return each.second < k_least_times || each.second < most / k_layers;
  });
  return counts;
}

// Returns the share of kinds that recur at this distance, where each weighs the same.
double recurring_at(const Kinds& kinds, std::size_t distance, const std::map<std::size_t, int>& counts) {
  std::map<std::size_t, std::pair<int, int>> found;  // times that it recurs, and could
  for (std::size_t i = 0; i + distance < kinds.size(); ++i) {
    if (!counts.contains(kinds[i])) continue;
    auto& [recurs, could] = found[kinds[i]];
    ++could;
    recurs += kinds[i] == kinds[i + distance] ? 1 : 0;
  }
  double sum = 0;
  for (const auto& [kind, count] : found) sum += static_cast<double>(count.first) / count.second;
  return found.empty() ? 0 : sum / static_cast<double>(found.size());
}

}  // namespace

std::optional<double> find_step(const NodeTrace& node) {
  if (node.ranks.empty()) return std::nullopt;
  const Collectives joined = join_traces({{0, 0, 0, node.groups, {node.ranks.front()}}});
  const std::vector<Moment>& moments = joined.tracks.front().moments;
  Kinds kinds;  // without the last one's: nothing follows it
  for (std::size_t i = 0; i + 1 < moments.size(); ++i)
    kinds.push_back(joined.all[moments[i].collective].kind);
  const auto counts = count_kinds(kinds);
  for (std::size_t distance = 1; distance * k_least_times <= kinds.size(); ++distance) {
    if (recurring_at(kinds, distance, counts) < k_recurring) continue;
    std::vector<std::int64_t> times;
    for (std::size_t i = 0; i + distance < kinds.size(); ++i) {
      if (kinds[i] == kinds[i + distance]) times.push_back(moments[i + distance].at - moments[i].at);
    }
    return static_cast<double>(middle_of(std::move(times)));
  }
  return std::nullopt;
}

}  // namespace ddprun::slow
