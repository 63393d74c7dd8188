#include "checkpoint/flush.hpp"

#include "catch.hpp"
#include "held_builder.hpp"

using namespace ddprun;
using namespace ddprun::checkpoint;
using namespace std::chrono_literals;
using ddprun::test::checkpoints::held;
using ddprun::test::checkpoints::published;

namespace {

const TimePoint k_now{};

using Ranks = std::vector<int>;

Held wrote(Held held, std::int64_t step, Ranks ranks) {
  held.flushed = step;
  held.flushed_ranks = std::move(ranks);
  return held;
}

struct Job {
  explicit Job(std::optional<Milliseconds> every = 30min, bool wanted = true) : flush(wanted, every) {
    flush.begin_attempt(0, -1, k_now);
  }
  void say(int agent, Held what) {
    known.note({agent}, "n" + std::to_string(agent), what);
    flush.look(known, now);
  }
  void pass(Milliseconds time) {
    now += time;
    flush.look(known, now);
  }
  void lose(int agent) {
    known.forget({agent});
    flush.look(known, now);
  }
  Ranks ranks(int agent) const { return flush.ranks_of({agent}); }

  TimePoint now = k_now;
  Register known;
  Flush flush;
};

}  // namespace

TEST_CASE("the newest complete step is flushed from time to time, each part by its owner") {
  Job job;
  job.say(0, held("80:0+1 90:0+1 100:0"));
  job.say(1, held("80:1+0 90:1+0"));
  CHECK_FALSE(job.flush.running());
  CHECK(job.flush.due() == k_now + 30min);
  job.pass(30min);
  CHECK(job.flush.running()->step == 90);
  CHECK(job.ranks(0) == Ranks{0});
  CHECK(job.ranks(1) == Ranks{1});
  CHECK(job.flush.due() == k_now + 60min);
  job.say(0, wrote(held("80:0+1 90:0+1 100:0+1"), 90, {0}));
  job.say(1, held("80:1+0 90:1+0 100:1+0"));
  CHECK_FALSE(job.flush.is_written());
  CHECK(job.flush.awaited() == std::set<AgentIndex>{{1}});
  job.say(1, wrote(held("90:1+0 100:1+0"), 90, {1}));
  CHECK(job.flush.is_written());
  CHECK(job.flush.running()->step == 90);
  Held done = wrote(held("90:0+1 100:0+1"), 90, {0});
  done.published = 90;
  done.published_world = 2;
  job.say(0, done);
  CHECK_FALSE(job.flush.running());
  job.pass(30min);
  CHECK(job.flush.running()->step == 100);
}

TEST_CASE("a flush that is due begins once a step is complete, and none is begun twice") {
  Job job;
  job.pass(40min);
  CHECK_FALSE(job.flush.running());
  CHECK(job.flush.due() == k_now + 70min);
  job.say(0, held("90:01"));
  CHECK(job.flush.running()->step == 90);
  job.say(0, published(held("90:01"), 90));
  job.pass(30min);
  CHECK_FALSE(job.flush.running());
}

TEST_CASE("whoever has the part writes what a lost agent has not written") {
  Job job;
  job.say(0, held("90:0+1", 3));
  job.say(1, held("90:1+2", 3));
  job.say(2, held("90:2+0", 3));
  job.pass(30min);
  job.say(2, wrote(held("90:2+0", 3), 90, {2}));
  job.lose(2);
  CHECK(job.ranks(0) == Ranks{0});
  CHECK(job.ranks(1) == Ranks{1});  // that of rank 2 is written
  job.lose(1);
  CHECK(job.ranks(0) == Ranks{0, 1});
  job.say(0, wrote(held("90:0+1", 3), 90, {0, 1}));
  CHECK(job.flush.is_written());
}

TEST_CASE("a flush is given up if a part is lost, or if the job goes back before it") {
  Job job;
  job.say(0, held("80:0+1 90:0"));
  job.say(1, held("80:1 90:1"));
  job.pass(30min);
  CHECK(job.flush.running()->step == 90);
  job.lose(1);
  CHECK_FALSE(job.flush.running());
  job.pass(30min);
  CHECK(job.flush.running()->step == 80);
  job.flush.begin_attempt(1, 80, job.now);
  CHECK(job.flush.running()->step == 80);
  CHECK(job.flush.number() == 0);
  job.flush.begin_attempt(2, 70, job.now);
  CHECK_FALSE(job.flush.running());
  job.pass(30min);
  CHECK(job.flush.number() == 2);
}

TEST_CASE("the newest step is flushed three minutes before the job's end, once") {
  Job job(std::nullopt);
  job.say(0, held("90:01"));
  job.flush.note_job_end(k_now + 60min);
  CHECK(job.flush.due() == k_now + 57min);
  job.pass(56min);
  CHECK_FALSE(job.flush.running());
  job.pass(1min);
  CHECK(job.flush.running()->step == 90);
  job.say(0, published(held("90:01 100:01"), 90, 2));
  job.flush.note_job_end(k_now + 60min);
  job.pass(1min);
  CHECK_FALSE(job.flush.running());
  CHECK_FALSE(job.flush.due());
  job.flush.note_job_end(k_now + 90min);  // the limit was extended
  CHECK(job.flush.due() == k_now + 87min);
}

TEST_CASE("at the end the newest step is flushed at once, and a newer one after it") {
  Job job(std::nullopt);
  job.say(0, held("90:01"));
  job.pass(5h);
  CHECK_FALSE(job.flush.running());
  CHECK_FALSE(job.flush.due());
  job.flush.begin_end(job.known);
  job.pass(0s);
  CHECK(job.flush.running()->step == 90);
  job.say(0, held("90:01 100:01"));
  CHECK(job.flush.running()->step == 90);
  job.say(0, published(held("90:01 100:01"), 90));
  CHECK(job.flush.running()->step == 100);
}

TEST_CASE("at the end a flush of an older step gives way") {
  Job job;
  job.say(0, held("90:01"));
  job.pass(30min);
  job.say(0, wrote(held("90:01 100:01"), 90, {0}));
  CHECK(job.flush.running()->step == 90);
  job.flush.begin_end(job.known);
  job.pass(0s);
  CHECK(job.flush.running()->step == 100);
  CHECK(job.flush.awaited().size() == 1);
}

TEST_CASE("without a folder nothing is flushed") {
  Job job(30min, false);
  job.say(0, held("90:01"));
  job.pass(1h);
  job.flush.begin_end(job.known);
  job.pass(0s);
  CHECK_FALSE(job.flush.running());
  CHECK_FALSE(job.flush.due());
}
