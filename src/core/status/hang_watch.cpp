#include "status/hang_watch.hpp"

#include <algorithm>

namespace ddprun::status {

namespace {

constexpr Milliseconds k_shortest_look{1000};
constexpr Milliseconds k_longest_look{30'000};
constexpr Milliseconds k_short_timeout{30'000};
constexpr double k_looked_at = 10;  // ms of CPU that a rank at rest may use between two looks, for them too
constexpr int k_times_taken = 3;

Milliseconds between(TimePoint from, TimePoint to) {
  return std::max(std::chrono::duration_cast<Milliseconds>(to - from), Milliseconds{0});
}

}  // namespace

void HangWatch::begin(std::size_t workers, double share, TimePoint now) {
  ranks_.assign(workers, Rank{});
  busy_ = std::min(k_busy, k_busy_of_share * share);
  for (Rank& rank : ranks_) rank.counted = rank.lived = now;
  began_ = lived_ = now;
}

void HangWatch::live(Rank& rank, TimePoint when) {
  rank.lived = std::max(rank.lived, when);
  if (when <= lived_) return;
  longest_ = std::max(longest_, between(lived_, when));
  lived_ = when;
}

// Reports whether the rank was busy since the previous look.
bool HangWatch::is_busy(const Rank& rank, const Signs& signs, TimePoint counted) const {
  const auto passed =
      static_cast<std::uint64_t>(std::max<std::int64_t>(between(rank.counted, counted).count(), 1));
  const auto grown = [](auto is, auto was) { return is > was ? is - was : decltype(is){}; };
  if (grown(signs.io_bytes, rank.last.io_bytes) * 1000 >= k_busy_io * passed) return true;
  const auto uses_cpu = [&](Milliseconds used) {
    return static_cast<double>(used.count()) >= busy_ * static_cast<double>(passed);
  };
  if (uses_cpu(grown(signs.children_cpu, rank.last.children_cpu))) return true;
  // Before torch is imported nothing says that the rank is in no collective, and it is in none.
  const bool in_none = signs.waits ? !*signs.waits : counted - began_ < k_start;
  return in_none &&
         uses_cpu(grown(signs.own_cpu, rank.last.own_cpu) + grown(signs.cpu_wait, rank.last.cpu_wait));
}

void HangWatch::note(std::size_t worker, const Signs& signs, TimePoint counted, TimePoint now) {
  Rank& rank = ranks_.at(worker);
  const auto lived_at = [&](const std::optional<Milliseconds>& age) {
    if (age) live(rank, std::max(began_, now - *age));
  };
  if (signs.waits == true) {
    lived_at(signs.collective_age);
  } else {
    lived_at(signs.output_age);
    lived_at(signs.progress_age);
    lived_at(signs.collective_age);
    const bool moved = rank.last.waits == true || signs.nccl_started > rank.last.nccl_started;
    if (rank.seen && moved) live(rank, now);
    if (rank.seen && is_busy(rank, signs, counted)) live(rank, counted);
  }
  rank.last = signs;
  rank.seen = true;
  rank.counted = counted;
}

std::optional<TimePoint> HangWatch::last_life() const {
  std::optional<TimePoint> newest;
  for (const Rank& rank : ranks_) {
    if (rank.last.running) newest = std::max(newest.value_or(rank.lived), rank.lived);
  }
  return newest;
}

Milliseconds HangWatch::limit() const {
  return timeout_.automatic ? std::max(k_least_learned, longest_ * k_times_longest) : timeout_.time;
}

std::optional<Milliseconds> HangWatch::quiet_for(TimePoint now) const {
  const auto lived = last_life();
  if (!lived || now - *lived < limit()) return std::nullopt;
  if (timeout_.automatic && now - began_ < k_learning) return std::nullopt;
  return between(*lived, now);
}

TimePoint HangWatch::next_look(TimePoint began, TimePoint now) const {
  const Milliseconds longest = std::clamp(limit() / 4, k_shortest_look, k_longest_look);
  const Milliseconds visible{static_cast<std::int64_t>(k_looked_at / busy_)};
  const Milliseconds part = limit() / (limit() <= k_short_timeout ? 20 : 10);
  const Milliseconds wanted = std::max({part, between(began, now) * k_times_taken, visible});
  const TimePoint usual =
      std::max(now + k_shortest_look / 2, began + std::clamp(wanted, k_shortest_look, longest));
  const TimePoint over = last_life().value_or(now) + limit();
  return over > now ? std::min(over, usual) : usual;
}

status::Signs signs_of(const WorkerStatus& worker) {
  status::Signs signs;
  signs.running = worker.pid != 0;
  signs.output_age = worker.output_age;
  signs.progress_age = worker.progress_age;
  if (worker.view.answers) signs.waits = worker.view.collective && worker.view.collective->pending;
  if (worker.view.collective) signs.collective_age = worker.view.collective->age;
  if (worker.view.nccl) signs.nccl_started = worker.view.nccl->started;
  signs.io_bytes = worker.io.value_or(0);
  signs.own_cpu = worker.own_cpu.value_or(Milliseconds{0});
  signs.cpu_wait = worker.cpu_wait.value_or(Milliseconds{0});
  signs.children_cpu = worker.cpu_time.value_or(signs.own_cpu) - signs.own_cpu;
  return signs;
}

}  // namespace ddprun::status
