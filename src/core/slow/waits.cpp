#include "slow/waits.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

namespace ddprun::slow {

namespace {

// Work of a rank since the awaited collective before this one.
struct Work {
  std::int64_t entered = 0, worked = 0;
  std::size_t track = 0;
};

struct Rank {
  std::vector<double> times;           // times of work before each awaited collective
  std::vector<double> excess;          // excess of these over the others
  std::optional<std::int64_t> done{};  // when the newest awaited collective was complete
  std::int64_t first = 0;
};

class Measure {
 public:
  explicit Measure(const Collectives& joined) : joined_(joined), ranks_(joined.tracks.size()) {
    std::vector<const Collective*> awaited;
    for (const Collective& each : joined.all) {
      if (each.awaited) awaited.push_back(&each);
    }
    std::ranges::sort(awaited, {}, &Collective::last);
    for (const Collective* const each : awaited) note(*each);
  }

  Waits result() const {
    Waits waits;
    std::vector<double> spans;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& rank = ranks_[i];
      if (rank.excess.empty()) continue;
      spans.push_back(static_cast<double>(*rank.done - rank.first));
      waits.of_rank[joined_.tracks[i].rank] = sum(rank);
    }
    waits.span = middle_of(std::move(spans));
    return waits;
  }

 private:
  void note(const Collective& each) {
    std::vector<Work> works;
    bool known = true;
    for (const Member& member : each.members) {
      const std::int64_t entered = joined_.at(member).at;
      Rank& rank = ranks_[member.track];
      known = known && rank.done;
      works.push_back({entered, entered - rank.done.value_or(entered), member.track});
      if (!rank.done) rank.first = each.last;
      rank.done = each.last;
    }
    if (!known || !each.judged) return;
    for (const Work& work : works) {
      ranks_[work.track].times.push_back(static_cast<double>(std::max<std::int64_t>(work.worked, 0)));
      ranks_[work.track].excess.push_back(static_cast<double>(excess_of(work, works)));
    }
  }

  std::int64_t excess_of(const Work& work, const std::vector<Work>& works) const {
    std::vector<std::int64_t> worked, entered;
    int bound = 0;
    const Track& own = joined_.tracks[work.track];
    for (const Work& other : works) {
      if (other.track == work.track) continue;
      worked.push_back(other.worked);
      entered.push_back(other.entered);
      const Track& track = joined_.tracks[other.track];
      if (track.node != own.node) bound = std::max(bound, own.bound + track.bound);
    }
    std::int64_t excess = work.worked - middle_of(std::move(worked));
    // A rank that took longer and still came early is waited for by none.
    if (excess > 0)
      excess = std::min(excess, std::max<std::int64_t>(work.entered - middle_of(std::move(entered)), 0));
    return std::abs(excess) <= bound ? 0 : excess;
  }

  static double sum(const Rank& rank) {
    const double usual = middle_of(rank.times);
    double total = 0;
    for (const double each : rank.excess) total += std::clamp(each, -usual, usual);
    return total;
  }

  const Collectives& joined_;
  std::vector<Rank> ranks_;
};

}  // namespace

Waits measure_waits(const std::vector<NodeTrace>& nodes) { return Measure(join_traces(nodes)).result(); }

}  // namespace ddprun::slow
