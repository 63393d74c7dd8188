#include "slow/waits.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "slow/collectives.hpp"

namespace ddprun::slow {

namespace {

constexpr double k_least_work = 0.2;  // share of a rank's usual time, below which it has skipped its work
constexpr std::size_t k_parts = 16;   // parts of a look

using Usual = std::map<std::pair<std::size_t, std::size_t>, double>;  // time of work by track and kind

// A collective whose ranks are compared, with the work of each since the one before.
struct Meeting {
  const Collective* what;
  std::vector<std::int64_t> worked{};
};

std::vector<Meeting> find_meetings(const Collectives& joined) {
  std::vector<Meeting> meetings;
  // When the newest awaited collective of each rank was complete.
  std::vector<std::optional<std::int64_t>> done(joined.tracks.size());
  for (const Collective& each : joined.all) {
    if (each.awaited) meetings.push_back({&each});
  }
  std::ranges::sort(meetings, {}, [](const Meeting& meeting) { return meeting.what->last; });
  std::erase_if(meetings, [&](Meeting& meeting) {
    bool known = meeting.what->judged;
    for (const Member& member : meeting.what->members) {
      std::optional<std::int64_t>& before = done[member.track];
      known = known && before;
      meeting.worked.push_back(std::max<std::int64_t>(member.at - before.value_or(member.at), 0));
      before = meeting.what->last;
    }
    return !known;
  });
  return meetings;
}

Usual find_usual(const std::vector<Meeting>& meetings) {
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> times;
  for (const auto& [what, worked] : meetings) {
    for (std::size_t i = 0; i < worked.size(); ++i)
      times[{what->members[i].track, what->kind}].push_back(static_cast<double>(worked[i]));
  }
  Usual usual;
  for (auto& [key, all] : times) usual[key] = middle_of(std::move(all));
  return usual;
}

// Returns by how much the member worked longer than the one in the middle of the others.
double excess_of(std::size_t own, const Meeting& meeting, const Usual& usual,
                 const std::vector<Track>& tracks) {
  const Collective* const what = meeting.what;
  const std::vector<std::int64_t>& worked = meeting.worked;
  const Track& track = tracks[what->members[own].track];
  std::vector<std::int64_t> others, entered;
  const auto skips = [&](std::size_t i) {
    return static_cast<double>(meeting.worked[i]) <
           k_least_work * usual.at({what->members[i].track, what->kind});
  };
  int bound = 0;
  for (std::size_t i = 0; i < worked.size(); ++i) {
    const Member& member = what->members[i];
    if (i == own || skips(i)) continue;
    others.push_back(worked[i]);
    entered.push_back(member.at);
    if (tracks[member.track].node != track.node)
      bound = std::max(bound, track.bound + tracks[member.track].bound);
  }
  if (others.empty() || skips(own)) return 0;
  std::int64_t excess = worked[own] - middle_of(std::move(others));
  // A rank that took longer and still came early is waited for by none.
  const std::int64_t late = std::max<std::int64_t>(what->members[own].at - middle_of(std::move(entered)), 0);
  if (excess > 0) excess = std::min(excess, late);
  return std::abs(excess) <= bound ? 0 : static_cast<double>(excess);
}

// Returns the mean of the middle half.
double mean_of_middle(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  const std::size_t cut = numbers.size() / 4;
  const double sum = std::accumulate(numbers.begin() + static_cast<std::ptrdiff_t>(cut),
                                     numbers.end() - static_cast<std::ptrdiff_t>(cut), 0.0);
  return sum / static_cast<double>(numbers.size() - 2 * cut);
}

// Time that a rank costs the others in the collectives of a group, and that it waits for them.
struct Sums {
  double costs = 0, waits = 0;
};

// Returns the collectives of GPUs, with how late each one was for them; none if none of them holds the GPUs.
std::vector<Meeting> find_timed(const Collectives& joined) {
  std::vector<Meeting> meetings;
  if (std::ranges::none_of(joined.all, &Collective::holds)) return meetings;
  for (const Collective& each : joined.all) {
    if (!each.timed || !each.judged) continue;
    Meeting& meeting = meetings.emplace_back(Meeting{&each});
    const int longest = std::ranges::max(each.members, {}, &Member::took).took;
    for (const Member& member : each.members) meeting.worked.push_back(longest - member.took);
  }
  std::ranges::sort(meetings, {}, [](const Meeting& meeting) { return meeting.what->last; });
  return meetings;
}

Sums sums_of_gpu(std::size_t own, const Meeting& meeting) {
  std::vector<std::int64_t> others = meeting.worked;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(own));
  const std::int64_t late = meeting.worked[own], waits = std::ranges::max(meeting.worked) - late;
  return {meeting.what->holds ? static_cast<double>(late - middle_of(std::move(others))) : 0,
          static_cast<double>(waits)};
}

// Returns what a rank costs most in one of its groups, without what it has waited for in the others.
double most_of(const std::map<int, Sums>& groups) {
  double waits = 0, most = -std::numeric_limits<double>::infinity();
  for (const auto& [group, sums] : groups) waits += sums.waits;
  for (const auto& [group, sums] : groups) most = std::max(most, sums.costs - (waits - sums.waits));
  return most;
}

// Adds up what each member costs; `by_group`: the most of any group counts, as they are GPUs' times.
template <class Cost>
Waits add_up(const std::vector<Meeting>& meetings, const std::vector<Track>& tracks, bool by_group,
             const Cost& cost) {
  Waits waits;
  if (meetings.empty()) return waits;
  waits.span = static_cast<double>(meetings.back().what->last - meetings.front().what->last);
  std::map<std::size_t, std::vector<double>> shares;
  for (std::size_t part = 0; part < k_parts; ++part) {
    const std::size_t first = part * meetings.size() / k_parts, end = (part + 1) * meetings.size() / k_parts;
    if (first == end) continue;
    const std::int64_t from = meetings[std::max<std::size_t>(first, 1) - 1].what->last;
    // GPUs are as quick as their hosts on the whole, not from one entry to the next.
    const double time =
        by_group ? waits.span * static_cast<double>(end - first) / static_cast<double>(meetings.size())
                 : static_cast<double>(meetings[end - 1].what->last - from);
    std::map<std::size_t, std::map<int, Sums>> waited;
    for (std::size_t i = first; i < end; ++i) {
      const Collective& what = *meetings[i].what;
      for (std::size_t own = 0; own < what.members.size(); ++own) {
        const Sums sums = cost(own, meetings[i]);
        Sums& all = waited[what.members[own].track][by_group ? what.group : 0];
        all = {all.costs + sums.costs, all.waits + sums.waits};
      }
    }
    for (const auto& [track, groups] : waited) {
      if (time > 0) shares[track].push_back(most_of(groups) / time);
    }
  }
  for (auto& [track, all] : shares)
    waits.of_rank[tracks[track].rank] = mean_of_middle(std::move(all)) * waits.span;
  return waits;
}

}  // namespace

Waits measure_waits(const std::vector<NodeTrace>& nodes) {
  const Collectives joined = join_traces(nodes);
  const std::vector<Meeting> meetings = find_meetings(joined);
  const Usual usual = find_usual(meetings);
  Waits waits = add_up(meetings, joined.tracks, false, [&](std::size_t own, const Meeting& meeting) {
    return Sums{excess_of(own, meeting, usual, joined.tracks)};
  });
  const Waits gpus = add_up(find_timed(joined), joined.tracks, true, sums_of_gpu);
  for (const auto& [rank, waited] : gpus.of_rank) {
    double& most = waits.of_rank.emplace(rank, waited).first->second;
    most = std::max(most, waited);
  }
  waits.span = std::max(waits.span, gpus.span);
  return waits;
}

}  // namespace ddprun::slow
