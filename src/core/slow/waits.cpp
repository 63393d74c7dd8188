#include "slow/waits.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
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

struct Rank {
  std::optional<std::int64_t> done{};  // when the newest awaited collective was complete
  std::vector<double> shares{};        // shares of the parts of the look
};

std::vector<Meeting> find_meetings(const Collectives& joined, std::vector<Rank>& ranks) {
  std::vector<Meeting> meetings;
  for (const Collective& each : joined.all) {
    if (each.awaited) meetings.push_back({&each});
  }
  std::ranges::sort(meetings, {}, [](const Meeting& meeting) { return meeting.what->last; });
  std::erase_if(meetings, [&](Meeting& meeting) {
    bool known = meeting.what->judged;
    for (const Member& member : meeting.what->members) {
      Rank& rank = ranks[member.track];
      known = known && rank.done;
      meeting.worked.push_back(std::max<std::int64_t>(member.at - rank.done.value_or(member.at), 0));
      rank.done = meeting.what->last;
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

}  // namespace

Waits measure_waits(const std::vector<NodeTrace>& nodes) {
  const Collectives joined = join_traces(nodes);
  std::vector<Rank> ranks(joined.tracks.size());
  const std::vector<Meeting> meetings = find_meetings(joined, ranks);
  const Usual usual = find_usual(meetings);
  Waits waits;
  if (meetings.empty()) return waits;
  waits.span = static_cast<double>(meetings.back().what->last - meetings.front().what->last);
  for (std::size_t part = 0; part < k_parts; ++part) {
    const std::size_t first = part * meetings.size() / k_parts, end = (part + 1) * meetings.size() / k_parts;
    if (first == end) continue;
    const std::int64_t from = meetings[std::max<std::size_t>(first, 1) - 1].what->last;
    const auto time = static_cast<double>(meetings[end - 1].what->last - from);
    std::map<std::size_t, double> waited;
    for (std::size_t i = first; i < end; ++i) {
      for (std::size_t own = 0; own < meetings[i].worked.size(); ++own)
        waited[meetings[i].what->members[own].track] += excess_of(own, meetings[i], usual, joined.tracks);
    }
    for (const auto& [track, sum] : waited) {
      if (time > 0) ranks[track].shares.push_back(sum / time);
    }
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks[i].shares.empty())
      waits.of_rank[joined.tracks[i].rank] = mean_of_middle(ranks[i].shares) * waits.span;
  }
  return waits;
}

}  // namespace ddprun::slow
