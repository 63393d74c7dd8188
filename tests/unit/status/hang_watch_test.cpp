#include "status/hang_watch.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::status;
using namespace std::chrono_literals;

namespace {

struct Watched {
  explicit Watched(std::size_t workers, options::HangTimeout timeout = {false, 60s}, double cpus = 64)
      : watch(timeout), signs(workers) {
    for (Signs& each : signs) each.running = true;
    watch.begin(workers, cpus / static_cast<double>(workers), now);
  }
  void look(Milliseconds later) {
    now += later;
    for (std::size_t i = 0; i < signs.size(); ++i) watch.note(i, signs[i], now, now);
  }
  bool quiet() const { return watch.quiet_for(now).has_value(); }
  // From the beginning of a look that took so long to the next one's.
  Milliseconds next(Milliseconds took = 0ms) const {
    return std::chrono::duration_cast<Milliseconds>(watch.next_look(now - took, now) - (now - took));
  }

  TimePoint now{1h};
  HangWatch watch;
  std::vector<Signs> signs;
};

}  // namespace

TEST_CASE("ranks that show nothing for the time-out are quiet, and the next look is at its end") {
  Watched two(2);
  CHECK(two.next() == 6s);
  two.look(59s);
  CHECK_FALSE(two.quiet());
  CHECK(two.next() == 1s);
  two.look(900ms);
  CHECK(two.next() == 100ms);
  two.look(100ms);
  CHECK(two.watch.quiet_for(two.now) == Milliseconds{60s});
  CHECK(two.next() == 6s);
}

TEST_CASE("looks are a second apart, or more where they cost more") {
  CHECK(Watched(2, {false, 4s}).next() == 1s);
  CHECK(Watched(2, {false, 30s}).next() == 1500ms);
  CHECK(Watched(2, {false, 40s}).next() == 4s);
  CHECK(Watched(2, {false, 1h}).next() == 30s);
  Watched two(2, {false, 20s});
  CHECK(two.next(100ms) == 1s);
  CHECK(two.next(800ms) == 2400ms);
  CHECK(two.next(3s) == 5s);  // a quarter of the time-out
  CHECK(two.next(6s) > 6s);   // not at once
  CHECK(Watched(64, {false, 20s}, 2).next() == 1s);
  CHECK(Watched(256, {false, 20s}, 2).next() == 2560ms);  // half of the share of each is 10 ms then
}

TEST_CASE("a rank that was busy has lived until that was counted") {
  Watched one(1, {false, 20s});
  one.look(1s);
  one.signs[0].waits = false;
  one.signs[0].own_cpu = 500ms;
  const TimePoint counted = one.now + 1s;
  one.watch.note(0, one.signs[0], counted, counted + 400ms);
  CHECK_FALSE(one.watch.quiet_for(counted + 20s - 1ms));
  CHECK(one.watch.quiet_for(counted + 20s) == Milliseconds{20s});
}

TEST_CASE("one rank that shows life keeps its host from being quiet") {
  Watched two(2);
  const auto alive = GENERATE(0, 1, 2, 3, 4, 5);
  two.look(1s);
  two.signs[1].waits = false;
  if (alive == 0) two.signs[1].output_age = 5s;
  if (alive == 1) two.signs[1].progress_age = 5s;
  if (alive == 2) two.signs[1].collective_age = 5s;
  if (alive == 3) two.signs[1].io_bytes = std::uint64_t{200} << 20U;  // a checkpoint is written
  if (alive == 4) two.signs[1].children_cpu = 10s;                    // data is loaded, or a kernel compiled
  if (alive == 5) two.signs[1].nccl_started = 1;
  two.look(60s);
  CHECK_FALSE(two.quiet());
  two.signs[1] = two.signs[1];
  if (alive < 3) two.signs[1].output_age = two.signs[1].progress_age = two.signs[1].collective_age = 80s;
  two.look(75s);
  CHECK(two.quiet());
}

TEST_CASE("a rank that waits in a collective shows no life, whatever it does") {
  Watched two(2);
  two.look(1s);
  for (Signs& each : two.signs) {
    each.waits = true;
    each.collective_age = 59s;
    each.output_age = 0s;
    each.progress_age = 0s;
    each.io_bytes = std::uint64_t{1} << 40U;
    each.own_cpu = each.children_cpu = 1h;
  }
  two.look(60s);
  CHECK_FALSE(two.quiet());
  for (Signs& each : two.signs) each.collective_age = 61s;
  two.look(2s);
  CHECK(two.quiet());
  two.signs[0].waits = false;  // it has got through
  two.look(1s);
  CHECK_FALSE(two.quiet());
}

TEST_CASE("CPU use counts only where it is known that the rank is in no collective") {
  Watched one(1);
  one.look(1s);
  one.signs[0].own_cpu = 50s;
  one.look(60s);
  CHECK_FALSE(one.quiet());  // it imports torch
  one.look(HangWatch::k_start);
  one.signs[0].own_cpu = 150s;
  one.look(60s);
  CHECK(one.quiet());
  one.signs[0].waits = false;
  one.signs[0].own_cpu = 210s;
  one.look(60s);
  CHECK_FALSE(one.quiet());
  one.signs[0].own_cpu += 1s;
  one.look(60s);
  CHECK(one.quiet());
}

TEST_CASE("a rank that waits for a CPU, as others use all of them, is not silent") {
  Watched one(1);
  one.look(1s);
  one.signs[0].own_cpu = one.signs[0].cpu_wait = 5900ms;  // together a little less than a tenth
  one.look(120s);
  CHECK(one.quiet());
  one.signs[0].cpu_wait += 12s;
  one.look(120s);
  CHECK_FALSE(one.quiet());
}

TEST_CASE("many ranks that share a CPU are busy with less of it") {
  Watched many(64, {false, 60s}, 2);
  many.look(1s);
  for (Signs& each : many.signs) each.own_cpu = 1800ms;  // 3 % of a CPU is what each can have
  many.look(60s);
  CHECK_FALSE(many.quiet());
  for (Signs& each : many.signs) each.own_cpu += 600ms;
  many.look(60s);
  CHECK(many.quiet());
}

TEST_CASE("a little traffic, as of a monitor, is no life") {
  Watched one(1);
  one.look(1s);
  one.signs[0].io_bytes = 30 << 20;
  one.signs[0].children_cpu = 3s;
  one.look(60s);
  CHECK(one.quiet());
}

TEST_CASE("ranks that have ended are not waited for, and none is quiet where all have") {
  Watched two(2);
  two.signs[1].running = false;
  two.signs[1].output_age = 0s;
  two.look(60s);
  CHECK(two.quiet());
  two.signs[0].running = false;
  two.look(1s);
  CHECK_FALSE(two.quiet());
}

TEST_CASE(
    "auto: nothing in the first ten minutes, then ten times the longest silence, five minutes at least") {
  Watched one(1, {true, {}});
  CHECK(one.watch.limit() == 5min);
  one.look(9min);
  CHECK_FALSE(one.quiet());
  one.look(90s);
  CHECK(one.quiet());  // 10 min 30 s without a sign
  one.signs[0].output_age = 0s;
  one.look(1s);
  CHECK_FALSE(one.quiet());
  CHECK(one.watch.limit() > 100min);
  Watched busy(1, {true, {}});
  for (int i = 0; i < 20; ++i) {
    busy.signs[0].output_age = 0s;
    busy.look(40s);
  }
  CHECK(busy.watch.limit() == 400s);
}

TEST_CASE("a new attempt is given the whole time again, and what was learned is kept") {
  Watched one(1, {true, {}});
  one.look(20min);
  one.signs[0].output_age = 0s;
  one.look(1s);
  one.watch.begin(1, 1, one.now);
  CHECK(one.watch.limit() > 200min);
  CHECK_FALSE(one.quiet());
}
