#include "slow/slow_watch.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddprun::slow {

namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

constexpr Milliseconds k_longest_interval{30'000}, k_shortest_interval{1'000}, k_per_agent{50};
constexpr std::size_t k_most_of_all = 200'000, k_fewest = 48;
constexpr double k_whole = 0.8;  // share of the window before anything is told
constexpr double k_steady = 0.5, k_recovered = 0.5;
constexpr std::size_t k_most_told = 16;
constexpr double k_worth_telling = 0.01;
constexpr std::chrono::minutes k_hour{60}, k_about{5}, k_lately{5};

Milliseconds to_milliseconds(double micros) { return Milliseconds{std::llround(micros / 1000)}; }

}  // namespace

Milliseconds look_interval(const options::SlowNotice& notice, int agents) {
  return std::max(std::clamp(notice.window / 10, k_shortest_interval, k_longest_interval),
                  agents * k_per_agent);
}

std::size_t entries_wanted(int world_size) {
  return std::clamp(k_most_of_all / static_cast<std::size_t>(std::max(world_size, 1)), k_fewest,
                    k_most_entries);
}

void SlowWatch::begin_attempt() { *this = SlowWatch(notice_); }

void SlowWatch::note(int agent, int number, NodeTrace trace, std::size_t agents, TimePoint now) {
  if (!notice_ || number < number_) return;
  if (number > number_ && !gathered_.empty()) judge(now);
  number_ = number;
  gathered_[agent] = std::move(trace);
  if (gathered_.size() >= agents) judge(now);
}

void SlowWatch::forget_start(NodeTrace& trace, TimePoint now) {
  const bool any =
      std::ranges::any_of(trace.ranks, [](const RankTrace& rank) { return !rank.entries.empty(); });
  if (!counts_from_ && any) counts_from_ = now + notice_->window / 10;
  if (!counts_from_) return;
  const auto from = duration_cast<microseconds>(counts_from_->time_since_epoch()).count() - trace.base;
  for (RankTrace& rank : trace.ranks)
    std::erase_if(rank.entries, [from](const Entry& entry) { return entry.at < from; });
}

void SlowWatch::judge(TimePoint now) {
  std::vector<NodeTrace> traces;
  for (auto& [agent, trace] : std::exchange(gathered_, {})) {
    forget_start(trace, now);
    traces.push_back(std::move(trace));
  }
  const auto has_first = [](const NodeTrace& trace) {
    return std::ranges::any_of(trace.ranks, [](const RankTrace& rank) { return rank.rank == 0; });
  };
  const auto first = std::ranges::find_if(traces, has_first);
  if (first != traces.end() && first->step > 0) steps_.push_back({now, static_cast<double>(first->step)});
  const Waits waits = measure_waits(traces);
  while (!steps_.empty() && steps_.front().at < now - k_hour - k_about) steps_.pop_front();
  while (!looks_.empty() && looks_.front().at < now - notice_->window) looks_.pop_front();
  if (waits.span <= 0) return;
  Look look{now, {}};
  for (const auto& [rank, waited] : waits.of_rank) look.shares[rank] = waited / waits.span;
  looks_.push_back(std::move(look));
}

std::map<int, double> SlowWatch::shares() const {
  std::map<int, double> sums;
  for (const Look& look : looks_) {
    for (const auto& [rank, share] : look.shares) sums[rank] += share / static_cast<double>(looks_.size());
  }
  for (auto& [rank, share] : sums) share = std::clamp(share, 0.0, 1.0);
  return sums;
}

std::optional<StepTime> SlowWatch::step() const {
  if (steps_.empty()) return std::nullopt;
  const TimePoint now = steps_.back().at;
  std::vector<double> lately, before;
  for (const Step& step : steps_) {
    if (step.at > now - k_lately) lately.push_back(step.microseconds);
    if (step.at <= now - k_hour + k_about) before.push_back(step.microseconds);
  }
  StepTime time{to_milliseconds(middle_of(std::move(lately)))};
  if (!before.empty()) time.hour_ago = to_milliseconds(middle_of(std::move(before)));
  return time;
}

bool SlowWatch::is_whole(TimePoint now) const {
  return !looks_.empty() &&
         static_cast<double>((now - looks_.front().at).count()) >=
             k_whole * static_cast<double>(duration_cast<TimePoint::duration>(notice_->window).count());
}

bool SlowWatch::is_steadily_slow(int rank, double share) const {
  std::vector<double> seen;
  for (const Look& look : looks_) {
    const auto found = look.shares.find(rank);
    seen.push_back(found != look.shares.end() ? found->second : 0);
  }
  return share >= notice_->share && middle_of(std::move(seen)) >= k_steady * notice_->share;
}

std::optional<SlowRank> SlowWatch::take_slow(TimePoint now) {
  if (!notice_ || !is_whole(now)) return std::nullopt;
  std::optional<SlowRank> slowest;
  for (const auto& [rank, share] : shares()) {
    if (share < k_recovered * notice_->share) told_.erase(rank);
    if (told_.contains(rank) || (slowest && slowest->share >= share) || !is_steadily_slow(rank, share))
      continue;
    slowest = SlowRank{rank, share};
  }
  if (slowest) told_.insert(slowest->rank);
  return slowest;
}

std::map<int, double> SlowWatch::take_seconds(TimePoint now) {
  if (!is_whole(now) || (seconds_taken_ && now < *seconds_taken_ + notice_->window)) return {};
  const TimePoint from = std::max(seconds_taken_.value_or(TimePoint{}), looks_.front().at);
  seconds_taken_ = now;
  std::vector<std::pair<double, int>> costly;
  for (const auto& [rank, share] : shares()) {
    if (share >= k_worth_telling) costly.emplace_back(share, rank);
  }
  std::ranges::sort(costly, std::greater{});
  costly.resize(std::min(costly.size(), k_most_told));
  std::map<int, double> seconds;
  for (const auto& [share, rank] : costly)
    seconds[rank] = share * std::chrono::duration<double>(now - from).count();
  return seconds;
}

}  // namespace ddprun::slow
