#include "slow/slow_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "slow/collectives.hpp"
#include "slow/waits.hpp"

namespace ddprun::slow {

namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

constexpr Milliseconds k_longest_interval{30'000}, k_shortest_interval{1'000}, k_per_agent{50};
constexpr std::size_t k_most_of_all = 200'000, k_fewest = 48;
constexpr double k_whole = 0.8;  // share of the window before anything is told
constexpr double k_steady = 0.5, k_recovered = 0.5, k_worth_telling = 0.01, k_times_slower = 2;
constexpr std::size_t k_most_told = 16;
constexpr std::chrono::minutes k_hour{60}, k_about{5}, k_lately{5};

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

void Shares::add(TimePoint now, std::map<int, double> shares) { looks_.emplace_back(now, std::move(shares)); }

void Shares::forget_old(TimePoint now) {
  while (!looks_.empty() && looks_.front().first < now - notice_.window) looks_.pop_front();
}

std::map<int, double> Shares::mean() const {
  std::map<int, double> sums;
  for (const auto& [at, shares] : looks_) {
    for (const auto& [number, share] : shares) sums[number] += share / static_cast<double>(looks_.size());
  }
  for (auto& [number, share] : sums) share = std::clamp(share, 0.0, 1.0);
  return sums;
}

bool Shares::is_whole(TimePoint now) const {
  return !looks_.empty() && now - looks_.front().first >= k_whole * notice_.window;
}

bool Shares::is_steady(int number, double share) const {
  std::vector<double> seen;
  for (const auto& [at, shares] : looks_) seen.push_back(shares.contains(number) ? shares.at(number) : 0);
  return share >= notice_.share && middle_of(std::move(seen)) >= k_steady * notice_.share;
}

std::optional<std::pair<int, double>> Shares::take(TimePoint now) {
  if (!is_whole(now)) return std::nullopt;
  std::optional<std::pair<int, double>> largest;
  for (const auto& [number, share] : mean()) {
    if (share < k_recovered * notice_.share) told_.erase(number);
    if (told_.contains(number) || (largest && largest->second >= share) || !is_steady(number, share))
      continue;
    largest = {number, share};
  }
  if (largest) told_.insert(largest->first);
  return largest;
}

void SlowWatch::judge(TimePoint now) {
  ranks_.forget_old(now);
  links_.forget_old(now);
  if (counts_from_ && now >= *counts_from_) judge_links(now);
  std::vector<NodeTrace> traces;
  for (auto& [agent, trace] : std::exchange(gathered_, {})) {
    forget_start(trace, now);
    const bool first = std::ranges::find(trace.ranks, 0, &RankTrace::rank) != trace.ranks.end();
    if (first && trace.step > 0) steps_.emplace_back(now, Milliseconds{std::lround(trace.step / 1000.0)});
    traces.push_back(std::move(trace));
  }
  while (!steps_.empty() && steps_.front().first < now - k_hour - k_about) steps_.pop_front();
  Waits waits = measure_waits(traces);
  if (waits.span <= 0) return;
  for (auto& [rank, waited] : waits.of_rank) waited /= waits.span;
  ranks_.add(now, std::move(waits.of_rank));
}

namespace {

constexpr std::int64_t k_tick = 10'000;  // microseconds in which the kernel counts, at most

// Returns bytes a second while it was busy; of one that was not filled the least that its network carries.
double rate_of(const LinkUse& use) {
  return static_cast<double>(use.sent) * 1e6 / static_cast<double>(std::max(use.busy, k_tick));
}

}  // namespace

void SlowWatch::judge_links(TimePoint now) {
  std::vector<double> rates;
  for (const auto& [agent, trace] : gathered_) {
    if (trace.link) rates.push_back(rate_of(*trace.link));
  }
  std::ranges::sort(rates);
  // To one in the lower half, the upper one in the middle of all is that in the middle of the others.
  const double usual = rates.empty() ? 0 : rates[rates.size() / 2];
  std::map<int, double> shares;
  for (const auto& [agent, trace] : gathered_) {
    if (!trace.link || !trace.link->filled || rate_of(*trace.link) * k_times_slower > usual) continue;
    const LinkUse& use = *trace.link;
    const double lost = static_cast<double>(use.busy) - static_cast<double>(use.sent) * 1e6 / usual;
    shares[agent] = lost / static_cast<double>(use.span);
    slow_links_[agent] = SlowLink{agent, 0, use, usual};
  }
  links_.add(now, std::move(shares));
}

std::map<int, double> SlowWatch::shares() const { return ranks_.mean(); }

std::optional<StepTime> SlowWatch::step() const {
  if (steps_.empty()) return std::nullopt;
  const TimePoint now = steps_.back().first;
  std::vector<Milliseconds> lately, before;
  for (const auto& [at, step] : steps_) {
    if (at > now - k_lately) lately.push_back(step);
    if (at <= now - k_hour + k_about) before.push_back(step);
  }
  return StepTime{middle_of(lately), before.empty() ? std::nullopt : std::optional(middle_of(before))};
}

std::optional<SlowRank> SlowWatch::take_slow(TimePoint now) {
  if (!notice_) return std::nullopt;
  const auto taken = ranks_.take(now);
  return taken ? std::optional(SlowRank{taken->first, taken->second}) : std::nullopt;
}

std::optional<SlowLink> SlowWatch::take_slow_link(TimePoint now) {
  if (!notice_) return std::nullopt;
  const auto taken = links_.take(now);
  if (!taken) return std::nullopt;
  SlowLink link = slow_links_.at(taken->first);
  link.share = taken->second;
  return link;
}

std::map<int, double> SlowWatch::take_seconds(TimePoint now) {
  if (!ranks_.is_whole(now) || (seconds_taken_ && now < *seconds_taken_ + notice_->window)) return {};
  const std::chrono::duration<double> time =
      now - std::max(seconds_taken_.value_or(TimePoint{}), ranks_.begin());
  seconds_taken_ = now;
  std::vector<std::pair<double, int>> costly;
  for (const auto& [rank, share] : shares()) {
    if (share >= k_worth_telling) costly.emplace_back(share, rank);
  }
  std::ranges::sort(costly, std::greater{});
  std::map<int, double> seconds;
  for (std::size_t i = 0; i < std::min(costly.size(), k_most_told); ++i)
    seconds[costly[i].second] = costly[i].first * time.count();
  return seconds;
}

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

namespace {

constexpr double k_waits_much = 0.1, k_times_others = 2;

// Returns the share of a rank's running and waiting time in which its main thread waited for a CPU.
double cpu_wait_share(const status::WorkerStatus& worker) {
  if (!worker.cpu_wait || !worker.own_cpu || worker.cpu_wait->count() == 0) return 0;
  const auto waited = static_cast<double>(worker.cpu_wait->count());
  return waited / (waited + static_cast<double>(worker.own_cpu->count()));
}

// Compared with the others that run.
struct Compared {
  double usual_cpu_wait = 0;
  bool is_waited_for = false;  // most of them are in a collective that the slow one has yet to enter
};

Compared compare(const status::JobStatus& job, const status::WorkerStatus& slow) {
  std::vector<double> shares;
  std::size_t ahead = 0;
  const auto& own = slow.view.collective;
  for_each_worker(job, [&](const status::NodeStatus&, const status::WorkerStatus& worker) {
    if (worker.rank == slow.rank || worker.pid == 0) return;
    shares.push_back(cpu_wait_share(worker));
    const auto& last = worker.view.collective;
    if (own && last && last->pending && last->group == own->group && last->sequence > own->sequence) ++ahead;
  });
  return {slow::middle_of(shares), 2 * ahead > shares.size()};
}

std::string describe_cause(const status::WorkerStatus& slow, const Compared& compared) {
  std::string text;
  const double own = cpu_wait_share(slow), usual = compared.usual_cpu_wait;
  if (own >= k_waits_much && own >= k_times_others * usual)
    text =
        fmt::format("; it waited for a CPU {:.0f} % of the time in which it could run, the others {:.0f} %",
                    100 * own, 100 * usual);
  if (slow.view.process.starts_with("in unint")) text += "; it is " + printable(slow.view.process, 128);
  const status::Frame* const place = status::own_frame(slow.view);
  if (compared.is_waited_for && place != nullptr)
    text += "; while they wait it is at " + printable(status::describe(*place), 300);
  return text;
}

}  // namespace

void add_waits(status::JobStatus& job, const slow::SlowWatch& watch) {
  const auto shares = watch.shares();
  for (status::NodeStatus& node : job.here) {
    for (status::WorkerStatus& worker : node.workers) {
      if (const auto found = shares.find(worker.rank); found != shares.end())
        worker.waited_percent = static_cast<int>(std::lround(100 * found->second));
    }
  }
  if (const auto step = watch.step())
    std::tie(job.step, job.step_hour_ago) = std::tie(step->now, step->hour_ago);
}

namespace {

std::string describe_rate(double bytes) {
  return facts::describe_bytes(static_cast<std::uint64_t>(bytes)) + "/s";
}

}  // namespace

SlowNotice describe_slow_link(const SlowLink& link, const std::string& host, const std::string& peer,
                              Milliseconds window) {
  SlowNotice notice;
  notice.host = host;
  const std::string from = printable(host, 128), to = printable(peer, 128);
  notice.what = fmt::format(
      "the connection from {} to {} is slow: it carries {}, those of the other nodes {}; the ranks "
      "waited for it {:.0f} % of the last {}",
      from, to, describe_rate(rate_of(link.use)), describe_rate(link.usual), 100 * link.share,
      describe_duration(window));
  if (const double resent = static_cast<double>(link.use.resent) / static_cast<double>(link.use.sent);
      resent >= k_worth_telling)
    notice.what += fmt::format("; {:.0f} % of its bytes were lost and sent again", 100 * resent);
  notice.hint = fmt::format(
      "look at the network cards of {} and {} and at their switch; ddprun --check measures the "
      "connections between all nodes",
      from, to);
  return notice;
}

std::optional<SlowNotice> describe_slow(const status::JobStatus& job, const slow::SlowRank& slow,
                                        Milliseconds window) {
  SlowNotice notice;
  for_each_worker(job, [&](const status::NodeStatus& node, const status::WorkerStatus& worker) {
    if (worker.rank != slow.rank || worker.pid == 0) return;
    notice.worker = worker;
    notice.host = node.host;
  });
  if (!notice.worker) return std::nullopt;
  const std::string host = printable(notice.host, 128);
  const Compared compared = compare(job, *notice.worker);
  notice.seen_late = compared.is_waited_for;
  notice.what = fmt::format("rank {} on {} is slow: the other ranks waited for it {:.0f} % of the last {}",
                            slow.rank, host, 100 * slow.share, describe_duration(window)) +
                describe_cause(*notice.worker, compared);
  notice.hint = fmt::format(
      "ddprun --status shows how long the others wait for each rank; ddprun --drain {} gives its node's work "
      "to a spare",
      host);
  return notice;
}

}  // namespace ddprun::slow
