#include "slow/collectives.hpp"

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace ddprun::slow {

namespace {

constexpr double k_other_gap = 2.5;          // ratio of the gaps at two places of a step
constexpr double k_least_part = 0.15;        // share of a kind
constexpr double k_follows = -0.5;           // slope between that of waiting, 0, and that of not waiting, -1
constexpr std::size_t k_enough_changes = 6;  // for a slope
constexpr std::int64_t k_noticeable = 20;    // microseconds
constexpr double k_overtaken_seldom =
    0.05;  // share of entries before the last one's of the collective before

class Joiner {
 public:
  explicit Joiner(const std::vector<NodeTrace>& nodes) {
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      for (const RankTrace& rank : nodes[node].ranks) add(nodes[node], node, rank);
    }
    std::ranges::sort(joined_.tracks, {}, &Track::rank);
    for (std::size_t track = 0; track < joined_.tracks.size(); ++track) add_members(track);
    for (Collective& each : joined_.all) finish(each);
  }

  Collectives take() { return std::move(joined_); }

 private:
  int group_of(const std::string& name) {
    return groups_.emplace(name, static_cast<int>(groups_.size())).first->second;
  }

  // A message has no number that both of its ends share: it is one of its own.
  std::size_t find(int group, const Entry& entry) {
    const auto role = static_cast<Role>(entry.role);
    const std::size_t next = joined_.all.size();
    const auto found = role == Role::sends ? numbers_.end() : numbers_.find({group, entry.sequence});
    if (found != numbers_.end()) return found->second;
    if (role != Role::sends) numbers_[{group, entry.sequence}] = next;
    joined_.all.push_back({group, role, entry.signature});
    return next;
  }

  void add(const NodeTrace& node, std::size_t number, const RankTrace& rank) {
    Track track{rank.rank, number, node.bound, {}};
    for (const Entry& entry : rank.entries) {
      const int group = group_of(node.groups[static_cast<std::size_t>(entry.group)]);
      auto& members = entry.role == static_cast<int>(Role::sends) ? senders_[group] : members_[group];
      members.insert(rank.rank);
      track.moments.push_back({node.base + entry.at, find(group, entry)});
    }
    joined_.tracks.push_back(std::move(track));
  }

  void add_members(std::size_t track) {
    const auto& moments = joined_.tracks[track].moments;
    for (std::size_t place = 0; place < moments.size(); ++place)
      joined_.all[moments[place].collective].members.push_back({track, place});
  }

  void finish(Collective& each) {
    const auto& members = members_[each.group];
    each.whole = each.role == Role::meets && members.size() > 1 && each.members.size() == members.size();
    if (!each.whole) return;
    for (const Member& member : each.members) each.last = std::max(each.last, joined_.at(member).at);
    const auto judged = judged_.find(each.group);
    each.judged = judged != judged_.end() ? judged->second : (judged_[each.group] = !holds_stages(members));
  }

  // Reports whether two of these ranks send to each other, as the stages of a pipeline do.
  bool holds_stages(const std::set<int>& ranks) const {
    return std::ranges::any_of(senders_, [&](const auto& group) {
      return std::ranges::count_if(group.second, [&](int rank) { return ranks.contains(rank); }) > 1;
    });
  }

  Collectives joined_;
  std::map<std::string, int> groups_;
  std::map<std::pair<int, int>, std::size_t> numbers_;
  std::map<int, std::set<int>> members_, senders_;
  std::map<int, bool> judged_;
};

// Returns how long after this one its ranks have entered their next collective, as most of them do.
std::int64_t gap_after(const Collectives& joined, const Collective& each) {
  std::vector<std::int64_t> gaps;
  for (const Member& member : each.members) {
    if (const Moment* const next = joined.after(member)) gaps.push_back(next->at - joined.at(member).at);
  }
  return middle_of(std::move(gaps));
}

// Returns the gap that parts the places of a step: a step of three equal collectives has two short gaps and a
// long one. The two parts differ as much as possible, on a scale of ratios (Otsu's method). Above all gaps if
// there is one place only.
std::int64_t parting_gap(std::vector<std::int64_t> gaps) {
  std::ranges::sort(gaps);
  std::vector<double> sums{0};
  for (const std::int64_t gap : gaps)
    sums.push_back(sums.back() + std::log(static_cast<double>(std::max<std::int64_t>(gap, 1))));
  const auto count = static_cast<double>(gaps.size());
  double widest = 0;
  std::int64_t parting = gaps.back() + 1;
  for (std::size_t i = 1; i < gaps.size(); ++i) {
    const auto below = static_cast<double>(i), above = count - below;
    if (std::min(below, above) < k_least_part * count) continue;
    const double apart = (sums.back() - sums[i]) / above - sums[i] / below;
    if (apart < std::log(k_other_gap) || below * above * apart * apart <= widest) continue;
    widest = below * above * apart * apart;
    parting = gaps[i];
  }
  return parting;
}

// Sets the kind of each whole collective: by what it is, what follows, and how soon. Returns how many there
// are.
std::size_t set_kinds(Collectives& joined) {
  using Key = std::tuple<int, int, int, int>;
  std::map<Key, std::vector<std::pair<std::size_t, std::int64_t>>> alike;
  for (std::size_t i = 0; i < joined.all.size(); ++i) {
    const Collective& each = joined.all[i];
    const Moment* const next = each.members.empty() ? nullptr : joined.after(each.members.front());
    const Collective* const then = next != nullptr ? &joined.all[next->collective] : nullptr;
    const Key key{each.group, each.signature, then ? then->group : -1, then ? then->signature : -1};
    alike[key].emplace_back(i, gap_after(joined, each));
  }
  std::size_t kinds = 0;
  for (const auto& [key, those] : alike) {
    std::vector<std::int64_t> gaps;
    for (const auto& [index, gap] : those) gaps.push_back(gap);
    const std::int64_t parting = parting_gap(std::move(gaps));
    for (const auto& [index, gap] : those) joined.all[index].kind = kinds + (gap < parting ? 0 : 1);
    kinds += 2;
  }
  return kinds;
}

// Evidence of one kind whether its ranks wait for it (waits.hpp).
struct Evidence {
  struct Change {
    double slope, weight;
  };
  std::map<std::size_t, std::pair<std::int64_t, std::int64_t>>
      before;  // earliness and time to the next entry, by track
  std::vector<Change> changes;
  std::size_t overtaken = 0, seen = 0;

  void note(std::size_t track, std::int64_t early, std::int64_t after) {
    ++seen;
    overtaken += after < 0 ? 1 : 0;
    const auto [known, first] = before.try_emplace(track, early, after);
    if (first) return;
    const auto moved = static_cast<double>(early - known->second.first);
    const auto answered = static_cast<double>(after - known->second.second);
    if (std::abs(moved) > k_noticeable) changes.push_back({answered / moved, std::abs(moved)});
    known->second = {early, after};
  }

  bool is_awaited() {
    if (static_cast<double>(overtaken) > k_overtaken_seldom * static_cast<double>(seen)) return false;
    if (changes.size() < k_enough_changes) return false;
    std::ranges::sort(changes, {}, &Change::slope);
    double half = 0;
    for (const Change& change : changes) half += change.weight / 2;
    for (const Change& change : changes) {
      half -= change.weight;
      if (half <= 0) return change.slope > k_follows;
    }
    return false;
  }
};

void find_awaited(Collectives& joined, std::size_t kinds) {
  std::vector<Evidence> evidence(kinds);
  for (const Collective& each : joined.all) {
    if (!each.whole) continue;
    for (const Member& member : each.members) {
      const Moment* const next = joined.after(member);
      if (next != nullptr)
        evidence[each.kind].note(member.track, each.last - joined.at(member).at, next->at - each.last);
    }
  }
  std::vector<bool> awaited;
  for (Evidence& each : evidence) awaited.push_back(each.is_awaited());
  for (Collective& each : joined.all) each.awaited = each.whole && awaited[each.kind];
}

}  // namespace

Collectives join_traces(const std::vector<NodeTrace>& nodes) {
  Collectives joined = Joiner(nodes).take();
  find_awaited(joined, set_kinds(joined));
  return joined;
}

}  // namespace ddprun::slow
