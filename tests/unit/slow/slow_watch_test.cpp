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

namespace {

constexpr std::int64_t k_mega = 1'000'000;

// Looks of `links.size()` agents, from the first to the last second of the window and more; each has sent so
// many bytes in so many microseconds of each 30 seconds.
SlowWatch watch_links(const std::vector<std::optional<LinkUse>>& links) {
  SlowWatch watch(k_notice);
  watch.begin_attempt();
  Training training{4};
  for (int number = 1; number <= 14; ++number) {
    for (int step = 0; step < 300; ++step) {
      for (const int rank : training.all()) training.work(rank, 99'900);
      training.meet(training.all(), "0", 1);
    }
    const auto traces = training.traces(2);
    for (std::size_t agent = 0; agent < links.size(); ++agent) {
      NodeTrace trace = agent < traces.size() ? traces[agent] : NodeTrace{};
      trace.base += std::chrono::duration_cast<std::chrono::microseconds>(k_begin.time_since_epoch()).count();
      trace.link = links[agent];
      watch.note(static_cast<int>(agent), number, trace, links.size(), k_begin + number * 30s);
    }
  }
  return watch;
}

LinkUse sends(std::int64_t bytes, std::int64_t busy) {
  return {"10.0.0.1", bytes, 0, busy, 30 * k_mega, true};
}

}  // namespace

TEST_CASE("a link that carries less than half of what the others do is told, with the time that it costs") {
  const std::int64_t size = 900 * k_mega;
  SlowWatch watch = watch_links({sends(size, k_mega), sends(size, 13 * k_mega), sends(size, 2 * k_mega)});
  const auto slow = watch.take_slow_link(k_begin + 420s);
  REQUIRE(slow);
  CHECK(slow->agent == 1);
  CHECK(std::abs(slow->share - 11.0 / 30) <
        0.01);  // the others take 1 s and 2 s: the lower one of two is the middle
  CHECK(slow->use.peer == "10.0.0.1");
  CHECK_FALSE(watch.take_slow_link(k_begin + 450s));
  CHECK_FALSE(watch.take_slow(k_begin + 420s));
}

TEST_CASE("a link is compared with those that were not filled, and such a one is not told") {
  LinkUse quick = sends(90 * k_mega, 0), slow = sends(90 * k_mega, 12 * k_mega);
  quick.filled = false;
  CHECK(watch_links({quick, slow}).take_slow_link(k_begin + 420s));
  slow.filled = false;
  CHECK_FALSE(watch_links({quick, slow}).take_slow_link(k_begin + 420s));
}

TEST_CASE("links that are not told") {
  const std::int64_t size = 900 * k_mega;
  const std::vector<std::vector<std::optional<LinkUse>>> cases{
      {sends(size, 10 * k_mega), sends(size, 12 * k_mega), sends(size, 15 * k_mega)},  // alike
      {sends(size, k_mega), sends(size, 3 * k_mega), sends(size, k_mega)},             // it costs 7 %
      {sends(size, 20 * k_mega), std::nullopt, std::nullopt},  // nothing to compare with
      {sends(size, k_mega), sends(size / 10, 2 * k_mega)},     // slow, and hardly used
  };
  for (const auto& links : cases) CHECK_FALSE(watch_links(links).take_slow_link(k_begin + 420s));
}

TEST_CASE("a slow link is told with both ends, both rates and what was lost on the way") {
  const SlowLink link{
      1, 0.384, {"10.0.0.3", 100 << 20, 5 << 20, 10 * k_mega, 30 * k_mega}, 900.0 * (1 << 20)};
  const SlowNotice notice = describe_slow_link(link, "n2", "n3", 300s);
  CHECK(notice.what ==
        "the connection from n2 to n3 is slow: it carries 10 MiB/s, those of the other nodes 900 MiB/s; the "
        "ranks waited for "
        "it 38 % of the last 5 min; 5 % of its bytes were lost and sent again");
  CHECK(notice.host == "n2");
  CHECK_FALSE(notice.worker);
}
