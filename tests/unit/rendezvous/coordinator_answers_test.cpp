// Agents that keep their connection and do not answer: stopped, or in the kernel.
#include "catch.hpp"
#include "coordinator_play.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::test::coordinator;
using namespace std::chrono_literals;

namespace {

CoordinatorSettings asking(int agents, bool elastic = false) {
  CoordinatorSettings chosen = settings(agents);
  chosen.silence = 20s;
  if (elastic) chosen.elastic = ElasticNodes{2, 0, 30s, options::Grow::now};
  return chosen;
}

struct AskedPlay : Play {
  explicit AskedPlay(CoordinatorSettings chosen) : Play(std::move(chosen)) {
    for (int agent = 0; agent < agents; ++agent) {
      Join join = join_of(agent, agents);
      join.announcement.pid = 4711 + agent;
      say(agent, join);
    }
    store_ready(0);
    log.clear();
  }
  // All but those that are stopped answer each question.
  void live(std::chrono::seconds time) {
    for (; time > 0s; time -= 1s) {
      const std::size_t before = sent<AliveQuestion>().size();
      pass(1s);
      const auto questions = sent<AliveQuestion>();
      for (std::size_t i = before; i < questions.size(); ++i) {
        const int agent = questions[i].first;
        if (!stopped.contains(agent) && all<EndJob>().empty()) say(agent, Alive{});
      }
    }
  }
  std::vector<std::string> noticed() const {
    std::vector<std::string> found;
    for (const ShowNotice& each : all<ShowNotice>()) found.push_back(each.notice.what);
    return found;
  }
  std::set<int> stopped;
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("every agent but the coordinator's own is asked every ten seconds whether it runs") {
  AskedPlay play(asking(3));
  play.live(1s);  // once after the start
  play.log.clear();
  play.live(10s);
  const auto asked = play.sent<AliveQuestion>();
  REQUIRE(asked.size() == 2);
  CHECK(asked[0].first == 1);
  CHECK(asked[1].first == 2);
  play.live(3600s);
  CHECK(play.noticed().empty());
  CHECK(play.all<EndJob>().empty());
}

TEST_CASE("one agent alone is asked nothing") {
  AskedPlay play(asking(1));
  CHECK_FALSE(play.coordinator.deadline());
}

TEST_CASE("an agent that does not answer is named after half a minute, and again once it answers") {
  AskedPlay play(asking(3));
  play.live(5s);
  play.stopped = {2};
  play.live(45s);
  REQUIRE(play.noticed() == Texts{"ddprun on n3 (ranks 4-5), pid 4713, has not answered for 30 s"});
  CHECK(play.all<ShowNotice>()[0].notice.hint ==
        "`ps -o stat,wchan -p 4713` on n3 shows its state: T is stopped, and kill -CONT 4713 on n3 continues "
        "it; D "
        "waits for a file system or a driver");
  play.live(600s);
  CHECK(play.noticed().size() == 1);
  CHECK(play.all<EndJob>().empty());  // its worker trains on
  play.stopped.clear();
  play.live(10s);
  CHECK(play.noticed().back().starts_with("ddprun on n3 (ranks 4-5) answers again, after "));
}

TEST_CASE("it is lost once the workers of all others have ended, after the host timeout") {
  AskedPlay play(asking(3));
  play.live(5s);
  play.stopped = {2};
  play.live(100s);
  for (const int agent : {0, 1}) play.say(agent, AttemptSucceeded{{0}});
  play.live(10s);
  CHECK(play.all<EndJob>().empty());
  play.live(25s);
  for (const int agent : {0, 1}) play.say(agent, Stopped{{0}, {}});
  CHECK(play.end().kind == report::Cause::Kind::agent_lost);
  CHECK(play.end_text().starts_with("lost n3 (ranks 4-5): ddprun there has not answered for 1"));
  const auto closed = play.all<CloseConnection>();
  REQUIRE_FALSE(closed.empty());
  CHECK(closed[0].connection == ConnectionId{2});
  CHECK(closed[0].reset);
}

TEST_CASE("an attempt that it has not begun cannot begin without it, though its others run") {
  AskedPlay play(asking(3));
  play.stopped = {2};
  play.live(61s);
  CHECK(play.sent<Stop>().size() == 2);
  for (const int agent : {0, 1}) play.say(agent, Stopped{{0}, {}});
  CHECK(play.end_text().starts_with("lost n3 (ranks 4-5): ddprun there has not answered for "));
}

TEST_CASE("a job that goes on without a node goes on without one that does not answer") {
  AskedPlay play(asking(3, true));
  play.live(5s);
  play.stopped = {2};
  play.live(60s);
  CHECK(play.sent<Stop>().empty());
  for (const int agent : {0, 1}) play.say(agent, AttemptSucceeded{{0}});
  play.live(31s);
  REQUIRE(play.sent<Stop>().size() == 2);
  for (const int agent : {0, 1}) play.say(agent, Stopped{{0}, {}});
  play.live(5s);  // until its reaper has killed its workers
  play.store_ready(1);
  CHECK(play.sent<Start>().size() == 2);
}

TEST_CASE("one that neither stops its workers nor answers is lost, and not in the way of a restart") {
  CoordinatorSettings chosen = asking(3, true);
  chosen.max_restarts = 1;
  chosen.silence = 60s;  // longer than the stop
  chosen.restarts.rule.value = options::RestartRule::always;
  Play play(chosen);
  play.all_join();
  play.store_ready(0);
  play.pass(1s);
  for (const int agent : {1, 2}) play.say(agent, Alive{});
  play.log.clear();
  play.pass(1s);
  play.say(1, AttemptFailed{{0}, failure_of(2)});
  for (const int agent : {0, 1}) play.say(agent, Stopped{{0}, {}});
  for (int second = 0; second < 45 && play.all<OpenStore>().empty(); ++second) {
    play.pass(1s);
    play.say(1, Alive{});
  }
  CHECK(play.all<EndJob>().empty());
  REQUIRE(play.all<OpenStore>().size() == 1);
}

TEST_CASE("time that passed while the coordinator was stopped itself is nobody's silence") {
  AskedPlay play(asking(3));
  play.live(5s);
  play.pass(3600s);
  CHECK(play.noticed().empty());
  play.live(60s);
  CHECK(play.noticed().empty());
}

TEST_CASE("ranks that were killed are in the report, and said before a restart") {
  const report::KilledRanks killed{{2}, "n2", 15, 30s, "is at train.py:31 in save"};
  for (const int restarts : {0, 1}) {
    Play play(settings(2, restarts));
    play.run();
    play.say(0, AttemptFailed{{0}, failure_of(0)});
    play.say(0, Stopped{{0}, {}});
    report::KilledRanks of_another = killed;
    of_another.ranks = {0};
    play.say(1, Stopped{{0}, {}, {2}, false, {}, {}, {killed, of_another}});
    if (restarts == 0) {
      REQUIRE_FALSE(play.sent<Finish>().empty());
      CHECK(play.sent<Finish>()[0].second.killed == std::vector{killed});
    } else {
      REQUIRE(play.all<ShowNotice>().size() == 1);
      CHECK(play.all<ShowNotice>()[0].notice.what ==
            "rank 2 on n2 was killed 30 s after SIGTERM; it was at train.py:31 in save");
    }
  }
}
