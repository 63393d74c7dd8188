#include "slow/collectives.hpp"

#include <cmath>
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
constexpr std::int64_t k_far = 1LL << 40;    // microseconds, above any that a GPU is early
constexpr double k_overtaken_seldom =
    0.05;  // share of entries before the last one's of the collective before

using Ranks = std::map<int, std::set<int>>;  // ranks by group

// Returns the collectives without their members; fills who meets and who sends in each group.
Collectives list_moments(const std::vector<NodeTrace>& nodes, Ranks& meeting, Ranks& sending) {
  Collectives joined;
  std::map<std::string, int> groups;
  std::map<std::pair<int, int>, std::size_t> numbers;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (const RankTrace& rank : nodes[node].ranks) {
      Track& track = joined.tracks.emplace_back(Track{rank.rank, node, nodes[node].bound, {}});
      for (const Entry& entry : rank.entries) {
        const std::string& name = nodes[node].groups[static_cast<std::size_t>(entry.group)];
        const int group = groups.emplace(name, static_cast<int>(groups.size())).first->second;
        const auto role = static_cast<Role>(entry.role);
        (role == Role::sends ? sending : meeting)[group].insert(rank.rank);
        // A message has no number that both of its ends share: it is one of its own.
        std::size_t collective = joined.all.size();
        if (role != Role::sends)
          collective = numbers.emplace(std::pair(group, entry.sequence), collective).first->second;
        if (collective == joined.all.size()) joined.all.push_back({group, role, entry.signature});
        track.moments.push_back({nodes[node].base + entry.at, collective, entry.took});
      }
    }
  }
  std::ranges::sort(joined.tracks, {}, &Track::rank);
  return joined;
}

Collectives join(const std::vector<NodeTrace>& nodes) {
  Ranks meeting, sending;
  Collectives joined = list_moments(nodes, meeting, sending);
  for (std::size_t track = 0; track < joined.tracks.size(); ++track) {
    const auto& moments = joined.tracks[track].moments;
    for (std::size_t i = 0; i < moments.size(); ++i) {
      Member member{track, moments[i].at, moments[i].took};
      if (i + 1 < moments.size()) member.next = moments[i + 1];
      joined.all[moments[i].collective].members.push_back(member);
    }
  }
  std::set<int> stages;  // groups in which two ranks send to each other, as the stages of a pipeline do
  for (const auto& meets : meeting) {
    const auto is_in = [&](int rank) { return meets.second.contains(rank); };
    for (const auto& sends : sending) {
      if (std::ranges::count_if(sends.second, is_in) > 1) stages.insert(meets.first);
    }
  }
  for (Collective& each : joined.all) {
    each.whole = each.role == Role::meets && each.members.size() > 1 &&
                 each.members.size() == meeting[each.group].size();
    each.judged = !stages.contains(each.group);
    each.timed = each.whole && std::ranges::find(each.members, 0, &Member::took) == each.members.end();
    for (const Member& member : each.members) each.last = std::max(each.last, member.at);
  }
  return joined;
}

// Returns how long after this one its ranks have entered their next collective, as most of them do.
std::int64_t gap_after(const Collective& each) {
  std::vector<std::int64_t> gaps;
  for (const Member& member : each.members) {
    if (member.next) gaps.push_back(member.next->at - member.at);
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
    const double apart = (sums.back() - sums[i]) / above - sums[i] / below;
    if (std::min(below, above) < k_least_part * count || apart < std::log(k_other_gap) ||
        below * above * apart * apart <= widest)
      continue;
    widest = below * above * apart * apart;
    parting = gaps[i];
  }
  return parting;
}

// Sets the kind of each collective: by what it is, what follows, and how soon. Returns how many there are.
std::size_t set_kinds(Collectives& joined) {
  std::map<std::tuple<int, int, int, int>, std::vector<Collective*>> alike;
  for (Collective& each : joined.all) {
    const auto& next = each.members.front().next;
    const Collective* const then = next ? &joined.all[next->collective] : nullptr;
    alike[{each.group, each.signature, then ? then->group : -1, then ? then->signature : -1}].push_back(
        &each);
  }
  std::size_t kinds = 0;
  for (const auto& [key, those] : alike) {
    std::vector<std::int64_t> gaps;
    for (const Collective* const each : those) gaps.push_back(gap_after(*each));
    const std::int64_t parting = parting_gap(gaps);
    for (std::size_t i = 0; i < those.size(); ++i) those[i]->kind = kinds + (gaps[i] < parting ? 0 : 1);
    kinds += 2;
  }
  return kinds;
}

// Evidence of one kind whether its ranks wait for it (waits.hpp).
struct Evidence {
  std::map<std::size_t, std::pair<std::int64_t, std::int64_t>>
      before;                                      // earliness and time to the next, by track
  std::vector<std::pair<double, double>> changes;  // slopes and weights
  std::size_t overtaken = 0, seen = 0;

  void note(std::size_t track, std::int64_t early, std::int64_t after) {
    ++seen;
    overtaken += after < 0 ? 1 : 0;
    const auto [known, first] = before.try_emplace(track, early, after);
    const auto moved = static_cast<double>(early - known->second.first);
    const auto answered = static_cast<double>(after - known->second.second);
    if (!first && std::abs(moved) > k_noticeable) changes.emplace_back(answered / moved, std::abs(moved));
    known->second = {early, after};
  }

  // Judges by the weighted median of the slopes.
  bool is_awaited() const {
    if (static_cast<double>(overtaken) > k_overtaken_seldom * static_cast<double>(seen)) return false;
    if (changes.size() < k_enough_changes) return false;
    double following = 0, all = 0;
    for (const auto& [slope, weight] : changes) {
      all += weight;
      if (slope <= k_follows) following += weight;
    }
    return following < all / 2;
  }
};

// Returns the time that the last GPU but one was in it.
int last_but_one(const Collective& timed) {
  std::vector<int> times;
  for (const Member& member : timed.members) times.push_back(member.took);
  std::ranges::nth_element(times, times.begin() + 1);
  return times[1];
}

// Notes how early the GPUs were, but for the last one, in this collective and in the next (waits.hpp).
void note_gpus(Evidence& evidence, const Collective& each, const Collectives& joined) {
  const int late = last_but_one(each);
  for (const Member& member : each.members) {
    const Collective* const next = member.next ? &joined.all[member.next->collective] : nullptr;
    if (!next || !next->timed || member.took < late) continue;
    const int after = member.next->took - last_but_one(*next);
    if (after >= 0) evidence.note(member.track, member.took - late, k_far - after);
  }
}

}  // namespace

Collectives join_traces(const std::vector<NodeTrace>& nodes) {
  Collectives joined = join(nodes);
  const std::size_t kinds = set_kinds(joined);
  std::vector<Evidence> hosts(kinds), gpus(kinds);
  for (const Collective& each : joined.all) {
    if (each.timed) note_gpus(gpus[each.kind], each, joined);
    for (const Member& member : each.members) {
      if (each.whole && member.next)
        hosts[each.kind].note(member.track, each.last - member.at, member.next->at - each.last);
    }
  }
  std::vector<bool> awaited, holds;
  for (const Evidence& each : hosts) awaited.push_back(each.is_awaited());
  for (const Evidence& each : gpus) holds.push_back(each.is_awaited());
  for (Collective& each : joined.all) {
    each.awaited = each.whole && awaited[each.kind];
    each.holds = each.timed && holds[each.kind];
  }
  return joined;
}

}  // namespace ddprun::slow
