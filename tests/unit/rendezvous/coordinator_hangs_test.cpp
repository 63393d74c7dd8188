#include "rendezvous/coordinator/coordinator.hpp"

#include "catch.hpp"
#include "coordinator_play.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::test::coordinator;
using namespace std::chrono_literals;

namespace {

// Agent i has rank 2i, which waits in a collective, and 2i+1, which does unless it is `culprit`.
StatusAnswer where(int agent, int question, int culprit = 3) {
  StatusAnswer answer{question, {"n" + std::to_string(agent + 1), {}, {}}};
  for (int i = 0; i < 2; ++i) {
    status::WorkerStatus& worker = answer.status.workers.emplace_back();
    worker.rank = 2 * agent + i;
    worker.local_rank = i;
    worker.pid = 100 + worker.rank;
    if (worker.rank != culprit)
      worker.view.collective = status::Collective{"all_reduce", "default_pg", 6, "", true, {}};
  }
  return answer;
}

CoordinatorSettings hangs(std::optional<options::OnHang> action, int restarts) {
  CoordinatorSettings chosen = settings(2, restarts);
  chosen.program = "train.py";
  chosen.record = true;
  if (action) chosen.hang.action = sourced(*action, "--on-hang");
  return chosen;
}

void hang(Play& play, int attempt = 0, int question = 1) {
  play.say(0, Quiet{{attempt}, true, 20s});
  CHECK(play.sent<StatusQuestion>().empty());
  play.say(1, Quiet{{attempt}, true, 25s});
  REQUIRE(play.sent<StatusQuestion>().size() == 2);
  CHECK(play.sent<StatusQuestion>()[0].second.stacks);
  for (const int agent : {0, 1}) play.say(agent, where(agent, question));
}

}  // namespace

TEST_CASE("once all agents are quiet the ranks are looked at, and the one that is waited for has failed") {
  Play play(hangs({}, 0));
  play.run();
  hang(play);
  REQUIRE(play.sent<Stop>().size() == 2);
  play.all_stopped(0);
  REQUIRE(play.all<EndJob>().size() == 1);
  const report::Cause cause = play.all<EndJob>()[0].cause;
  CHECK(cause.kind == report::Cause::Kind::worker_failed);
  CHECK(cause.failure.rank == GlobalRank{3});
  CHECK(cause.failure.host == "n2");
  CHECK(report::describe(cause).starts_with("rank 3 on n2 hangs: it shows no stack"));
  CHECK(report::describe(cause).ends_with("no rank has shown a sign of life for 20 s"));
  CHECK(report::exit_code_of(cause) == 124);
}

TEST_CASE("a hang is answered with a restart where restarts are left, unless --on-hang says stop") {
  const bool stops = GENERATE(false, true);
  Play play(hangs(stops ? std::optional(options::OnHang::stop) : std::nullopt, 1));
  play.run();
  hang(play);
  play.all_stopped(0);
  CHECK(play.all<EndJob>().size() == (stops ? 1 : 0));
  CHECK(play.all<ShowRestart>().size() == (stops ? 0 : 1));
  if (stops) return;
  play.log.clear();
  play.store_ready(1);
  hang(play, 1, 2);  // again, and nothing is left
  play.all_stopped(1);
  CHECK(play.all<EndJob>().size() == 1);
}

TEST_CASE("--on-hang report tells once in a silence and stops nothing") {
  Play play(hangs(options::OnHang::report, 1));
  play.run();
  hang(play);
  CHECK(play.sent<Stop>().empty());
  REQUIRE(play.all<ShowHang>().size() == 1);
  CHECK(play.all<ShowHang>()[0].verdict.rank == 3);
  std::vector<events::Event> hung;
  for (const Record& each : play.all<Record>()) {
    if (each.event.kind == events::EventKind::hang) hung.push_back(each.event);
  }
  REQUIRE(hung.size() == 1);
  CHECK(hung[0].rank == 3);
  CHECK(hung[0].host == "n2");
  CHECK(hung[0].what.starts_with("rank 3 on n2 hangs: it shows no stack"));
  CHECK(hung[0].hint == "its stack shows what it is waiting for");
  CHECK(hung[0].lines.size() == 2);
  play.log.clear();
  play.say(1, Quiet{{0}, true, 40s});
  CHECK(play.sent<StatusQuestion>().empty());
  play.say(1, Quiet{{0}, false, 0s});  // it goes on
  play.say(1, Quiet{{0}, true, 20s});  // and hangs again
  CHECK(play.sent<StatusQuestion>().size() == 2);
}

TEST_CASE("a sign of life while the ranks are looked at takes the verdict back") {
  Play play(hangs({}, 0));
  play.run();
  for (const int agent : {0, 1}) play.say(agent, Quiet{{0}, true, 20s});
  play.say(0, where(0, 1));
  play.say(1, Quiet{{0}, false, 0s});
  play.say(1, where(1, 1));
  CHECK(play.sent<Stop>().empty());
}

TEST_CASE(
    "an agent that does not answer keeps no verdict back, and one whose ranks have ended is not waited for") {
  Play play(hangs({}, 0));
  play.run();
  play.say(0, AttemptSucceeded{{0}});
  play.say(1, Quiet{{0}, true, 20s});
  play.say(1, where(1, 1));
  CHECK(play.sent<Stop>().empty());
  play.pass(StatusRound::k_limit);
  CHECK(play.sent<Stop>().size() == 2);
}

TEST_CASE("what is asked by people meanwhile is answered after the verdict's question, each once") {
  Play play(hangs(options::OnHang::report, 0));
  play.run();
  for (const int agent : {0, 1}) play.say(agent, Quiet{{0}, true, 20s});
  play.say(0, JobQuestion{});
  play.say(0, JobQuestion{true});
  play.say(0, JobQuestion{true});
  for (int question = 1; question <= 3; ++question) {
    for (const int agent : {0, 1}) play.say(agent, where(agent, question));
  }
  REQUIRE(play.sent<JobShown>().size() == 2);
  CHECK_FALSE(play.sent<JobShown>()[0].second.stacks);
  CHECK(play.sent<JobShown>()[1].second.stacks);
  CHECK(play.all<ShowHang>().size() == 1);
}

TEST_CASE("a rank has exited and the others run on: one line, and with --exit-barrier-timeout a failure") {
  Play play(hangs({}, 0));
  play.run();
  play.say(0, EarlyExit{{0}, GlobalRank{0}, 60s, false});
  play.say(1, EarlyExit{{0}, GlobalRank{2}, 60s, false});
  CHECK(play.sent<StatusQuestion>().size() == 2);
  for (const int agent : {0, 1}) play.say(agent, where(agent, 1, -1));
  REQUIRE(play.all<ShowNotice>().size() == 1);
  CHECK(play.all<ShowNotice>()[0].notice.what.starts_with(
      "rank 0 exited with code 0 60 s ago, and 4 ranks are still"));
  play.say(0, EarlyExit{{0}, GlobalRank{0}, 300s, true});
  for (const int agent : {0, 1}) play.say(agent, where(agent, 2, -1));
  CHECK(play.sent<Stop>().size() == 2);
}
