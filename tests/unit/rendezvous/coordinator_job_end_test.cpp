#include <csignal>

#include "catch.hpp"
#include "coordinator_play.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::test::coordinator;
using namespace std::chrono_literals;

namespace {

CoordinatorSettings limited(int max_restarts, Milliseconds min_attempt) {
  CoordinatorSettings chosen = settings(2, max_restarts);
  chosen.time_limit.min_attempt = sourced(min_attempt, "--min-attempt-time");
  return chosen;
}

void fail_attempt(Play& play, int attempt) {
  play.say(1, AttemptFailed{{attempt}, failure_of(3, attempt)});
  play.all_stopped(attempt);
}

}  // namespace

TEST_CASE("all agents are told to warn the workers that run, and those of later attempts as they start") {
  Play play(settings(2, 3));
  play.run();
  play.take(play.coordinator.on_job_end({}, SIGUSR1));
  REQUIRE(play.sent<Warn>().size() == 2);
  CHECK(play.sent<Warn>()[1] == std::pair(1, Warn{{0}, SIGUSR1}));
  play.log.clear();
  fail_attempt(play, 0);
  CHECK(play.sent<Warn>().empty());
  play.store_ready(1);
  REQUIRE(play.sent<Start>().size() == 2);
  REQUIRE(play.sent<Warn>().size() == 2);
  CHECK(play.sent<Warn>()[0] == std::pair(0, Warn{{1}, SIGUSR1}));
  CHECK(std::holds_alternative<Warn>(std::get<SendTo>(play.log.back()).message));
}

TEST_CASE("workers that are being stopped are not warned") {
  Play play(settings(2, 3));
  play.run();
  play.say(1, AttemptFailed{{0}, failure_of(3)});
  play.take(play.coordinator.on_job_end({}, SIGUSR1));
  CHECK(play.sent<Warn>().empty());
}

TEST_CASE("no restart is begun where less than --min-attempt-time is left of the job") {
  const auto left = GENERATE(9min, 11min);
  Play play(limited(3, 10min));
  play.run();
  play.take(play.coordinator.on_job_end(play.now + left, {}));
  fail_attempt(play, 0);
  if (left > 10min) {
    CHECK(play.all<ShowRestart>().size() == 1);
  } else {
    CHECK(play.end().kind == report::Cause::Kind::worker_failed);
    CHECK(play.end_text() == "the job ends in 9 min, and --min-attempt-time asks for 10 min for an attempt");
  }
}

TEST_CASE("the time that the workers take to stop counts against --min-attempt-time") {
  Play play(limited(3, 10min));
  play.run();
  play.take(play.coordinator.on_job_end(play.now + 10min + 20s, {}));
  play.say(1, AttemptFailed{{0}, failure_of(3)});
  play.pass(25s);
  play.all_stopped(0);
  CHECK(play.end().kind == report::Cause::Kind::worker_failed);
}

TEST_CASE("workers that fail after the warning are not restarted where the job is requeued") {
  CoordinatorSettings chosen = settings(2, 3);
  chosen.time_limit.requeue = sourced(0, "--requeue");
  Play play(std::move(chosen));
  play.run();
  play.take(play.coordinator.on_job_end({}, SIGUSR1));
  fail_attempt(play, 0);
  CHECK(play.end_text() == "the workers were warned of the job's end, and --requeue runs the job again");
}

TEST_CASE("the last message names the ranks that a signal found running") {
  Play play(settings(2));
  play.run();
  play.say(0, StopRequest{15, "n1"});
  play.say(0, Stopped{{0}, {}, {}, false, {1}});
  play.say(1, Stopped{{0}, {}, {}, false, {2, 3}});
  REQUIRE(play.sent<Finish>().size() == 2);
  CHECK(play.sent<Finish>()[0].second.victims == std::vector<int>{0});
  CHECK(play.sent<Finish>()[1].second.victims.empty());
}
