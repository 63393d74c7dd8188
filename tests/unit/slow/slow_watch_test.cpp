#include "slow/slow_watch.hpp"

#include "catch.hpp"
#include "training.hpp"

using namespace ddprun;
using namespace ddprun::slow;

namespace {

using namespace std::chrono_literals;

constexpr options::SlowNotice k_notice{0.1, 300s};
constexpr auto k_begin = TimePoint(1000s);  // in it the training begins at its own second 1

// Two nodes of two ranks, whose training goes on from look to look. `late`: milliseconds of rank 3.
class Job {
 public:
  explicit Job(const options::SlowNotice& notice = k_notice) : watch(notice) { watch.begin_attempt(); }

  void run_for(std::chrono::seconds time, double late) {
    const auto end = now + time;
    while (now < end) {
      now += look_interval(k_notice, 2);
      const double until = std::chrono::duration<double, std::micro>(now - k_begin).count();
      while (training.now(0) < until) step(late);
      ++number;
      auto traces = training.traces(2);
      for (int agent = 0; agent < 2; ++agent) {
        auto& trace = traces[static_cast<std::size_t>(agent)];
        trace.base +=
            std::chrono::duration_cast<std::chrono::microseconds>(k_begin.time_since_epoch()).count();
        trace.step = static_cast<int>(100'000 + late * 1000);
        watch.note(agent, number, trace, 2, now);
      }
    }
  }

  SlowWatch watch;
  TimePoint now = k_begin;

 private:
  void step(double late) {
    for (const int rank : training.all()) training.work(rank, 99'900);
    training.pause(3, late * 1000);
    training.meet(training.all(), "0", 1);
  }
  Training training{4};
  int number = 0;
};

}  // namespace

TEST_CASE("a slow rank is told once, when most of the window has been seen") {
  Job job;
  job.run_for(210s, 25);
  CHECK_FALSE(job.watch.take_slow(job.now));
  job.run_for(150s, 25);
  const auto slow = job.watch.take_slow(job.now);
  REQUIRE(slow);
  CHECK(slow->rank == 3);
  CHECK(std::abs(slow->share - 0.2) < 0.02);
  CHECK(std::abs(job.watch.shares().at(3) - 0.2) < 0.02);
  CHECK(job.watch.shares().at(0) < 0.02);
  job.run_for(300s, 25);
  CHECK_FALSE(job.watch.take_slow(job.now));
}

TEST_CASE("a rank that was slow again after it was not is told again") {
  Job job;
  job.run_for(330s, 25);
  CHECK(job.watch.take_slow(job.now));
  for (const double late : {0.0, 25.0}) {
    job.run_for(330s, late);
    CHECK(job.watch.take_slow(job.now).has_value() == (late > 0));
  }
}

TEST_CASE("an even training and a rank below the share are not told") {
  Job job;
  job.run_for(400s, 0);
  CHECK_FALSE(job.watch.take_slow(job.now));
  job.run_for(400s, 8);
  CHECK_FALSE(job.watch.take_slow(job.now));
}

TEST_CASE("a disturbance of one minute is not told, whatever it cost") {
  Job job;
  job.run_for(300s, 0);
  job.run_for(120s, 300);
  CHECK(job.watch.shares().at(3) > 0.1);
  CHECK_FALSE(job.watch.take_slow(job.now));
}

TEST_CASE("the first collectives after a start do not count") {
  Job job;
  job.run_for(30s, 300);
  CHECK(job.watch.shares().empty());
  job.run_for(300s, 0);
  CHECK(job.watch.shares().at(3) < 0.05);
  job.watch.begin_attempt();
  CHECK(job.watch.shares().empty());
  CHECK_FALSE(job.watch.step());
}

TEST_CASE("the seconds that others waited are told once in a window, and only of ranks that cost something") {
  Job job;
  job.run_for(330s, 25);
  const auto seconds = job.watch.take_seconds(job.now);
  REQUIRE(seconds.size() == 1);
  CHECK(std::abs(seconds.at(3) - 55) < 10);
  job.run_for(150s, 25);
  CHECK(job.watch.take_seconds(job.now).empty());
  job.run_for(150s, 25);
  CHECK(std::abs(job.watch.take_seconds(job.now).at(3) - 60) < 10);
}

TEST_CASE("a step is compared with that of an hour ago, once there was one") {
  SlowWatch watch(k_notice);
  NodeTrace trace{0, 0, 100'000, {}, {{0, {}}}};
  const auto look = [&](int number) { watch.note(0, number, trace, 1, k_begin + number * 15s); };
  for (int number = 1; number <= 40; ++number) look(number);
  REQUIRE(watch.step());
  CHECK(watch.step()->now == 100ms);
  CHECK_FALSE(watch.step()->hour_ago);
  trace.step = 130'000;
  for (int number = 41; number <= 280; ++number) look(number);
  CHECK(watch.step()->now == 130ms);
  CHECK(watch.step()->hour_ago == 100ms);
}

TEST_CASE("a look is judged without an agent that has sent nothing, and late ones are dropped") {
  SlowWatch watch(k_notice);
  Training training(2);
  NodeTrace trace = training.traces().front();
  trace.ranks.front().rank = 0;
  trace.step = 5000;
  watch.note(0, 5, trace, 2, TimePoint(5s));
  CHECK_FALSE(watch.step());
  watch.note(0, 6, trace, 2, TimePoint(20s));
  CHECK(watch.step());
  watch.note(1, 5, trace, 2, TimePoint(20s));
  watch.note(1, 6, trace, 2, TimePoint(20s));
  CHECK(watch.step()->now == 5ms);
}

TEST_CASE("looks come more seldom in large jobs, and more often in short windows") {
  CHECK(look_interval(k_notice, 4) == 30s);
  CHECK(look_interval(k_notice, 1000) == 50s);
  CHECK(look_interval({0.1, 10s}, 2) == 1s);
  CHECK(entries_wanted(8) == 256);
  CHECK(entries_wanted(1000) == 200);
  CHECK(entries_wanted(100'000) == 48);
}

TEST_CASE("without --slow-notice nothing is noted") {
  SlowWatch watch(std::nullopt);
  watch.note(0, 1, {}, 1, TimePoint{});
  CHECK_FALSE(watch.take_slow(TimePoint{}));
  CHECK(watch.shares().empty());
}
