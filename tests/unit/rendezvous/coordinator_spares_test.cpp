// --spares: agents that wait, and hosts that the job is started without.
#include "catch.hpp"
#include "coordinator_play.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::test::coordinator;
using namespace std::chrono_literals;

namespace {

CoordinatorSettings with_spares(int agents, int spares, int max_restarts = 0) {
  CoordinatorSettings chosen = settings(agents, max_restarts);
  chosen.elastic = ElasticNodes{agents - spares, spares, 30s, options::Grow::now};
  chosen.restarts.rule = sourced(options::RestartRule::always, "--restart-policy");
  return chosen;
}

using Ranks = std::map<int, int>;  // the first of each agent

Ranks started(const Play& play) {
  Ranks found;
  for (const auto& [agent, start] : play.sent<Start>())
    found[agent] = start.assignment.workers.front().rank.value;
  return found;
}

std::vector<int> standing_by(const Play& play) {
  std::vector<int> found;
  for (const auto& [agent, standby] : play.sent<Standby>()) found.push_back(agent);
  return found;
}

std::string noticed(const Play& play) {
  std::string all;
  for (const ShowNotice& each : play.all<ShowNotice>()) all += each.notice.what + "\n";
  return all;
}

// One attempt ends by a failure of the host of `rank`, and the next one starts.
void fail_and_restart(Play& play, int agent, int rank, int attempt) {
  play.say(agent, AttemptFailed{{attempt}, failure_of(rank, attempt)});
  for (const auto& [other, stop] : play.sent<Stop>()) {
    if (stop.attempt.value == attempt) play.say(other, Stopped{{attempt}, {}});
  }
  play.store_ready(attempt + 1);
}

}  // namespace

TEST_CASE("spares wait, and the world is that of the others") {
  Play play(with_spares(4, 1));
  play.all_join();
  play.store_ready(0);
  CHECK(started(play) == Ranks{{0, 0}, {1, 2}, {2, 4}});
  CHECK(play.sent<Start>()[0].second.assignment.world_size == 6);
  CHECK(play.sent<Start>()[0].second.assignment.node_count == 3);
  CHECK(standing_by(play) == std::vector<int>{3});
  CHECK(noticed(play).empty());
}

TEST_CASE("a lost host's ranks go to a spare, and the others keep theirs") {
  Play play(with_spares(4, 1));
  play.run();
  play.lose(1, "the host no longer answers");
  for (const int agent : {0, 2}) play.say(agent, Stopped{{0}, {}});
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, 0}, {3, 2}, {2, 4}});
  CHECK(play.sent<Start>()[0].second.assignment.world_size == 6);
  CHECK(noticed(play) ==
        "lost n2 (ranks 2-3): the host no longer answers; starting all workers again on 3 of 3 nodes\n"
        "n4 replaces n2\n");
  CHECK(play.all<ShowRestart>().empty());
}

TEST_CASE("a host whose workers SIGKILL does not end is lost at once, and a spare takes its place") {
  Play play(with_spares(4, 1));
  play.run();
  play.lose(2, "no answer");
  play.say(0, Stopped{{0}, {}});
  play.say(1, Stuck{{0}});
  CHECK(play.all<CloseConnection>().size() == 1);
  CHECK(play.end_text() ==
        "lost n2 (ranks 2-3): SIGKILL has not ended its workers; 2 nodes left, and the job needs 3; no spare "
        "is left, as 2 of 4 nodes are lost: n2, n3");

  Play other(with_spares(4, 1, 1));
  other.run();
  other.say(0, AttemptFailed{{0}, failure_of(0)});
  for (const int agent : {0, 2}) other.say(agent, Stopped{{0}, {}});
  other.say(1, Stuck{{0}});
  other.pass(2s);  // until nothing of it can run any more
  other.store_ready(1);
  CHECK(started(other) == Ranks{{0, 0}, {3, 2}, {2, 4}});
}

TEST_CASE("a lost spare is told, and only then") {
  Play play(with_spares(4, 1));
  play.run();
  play.lose(3, "its connection was reset");
  CHECK(noticed(play) == "lost n4: its connection was reset; it was a spare\n");
  CHECK(play.sent<Stop>().empty());
}

TEST_CASE("when no spare is left the job ends with one sentence that lists the lost hosts") {
  Play play(with_spares(4, 1));
  play.run();
  play.lose(3, "gone");
  play.lose(1, "the host no longer answers");
  for (const int agent : {0, 2}) play.say(agent, Stopped{{0}, {}});
  CHECK(
      play.end_text() ==
      "lost n2 (ranks 2-3): the host no longer answers; 2 nodes left, and the job needs 3; no spare is left, "
      "as 2 of 4 nodes are lost: n2, n4");
}

TEST_CASE("a host that comes back is a spare and stops nothing") {
  Play play(with_spares(4, 1));
  play.run();
  play.lose(1, "gone");
  for (const int agent : {0, 2}) play.say(agent, Stopped{{0}, {}});
  play.store_ready(1);
  play.log.clear();
  play.say(11, join_of(1, 4));
  CHECK(standing_by(play) == std::vector<int>{11});
  CHECK(play.sent<Stop>().empty());
}

TEST_CASE("a spare that is needed while the workers stop is taken in the same attempt") {
  Play play(with_spares(5, 2));
  play.run();
  play.lose(1, "gone");
  play.lose(3, "gone");
  play.lose(2, "gone");
  play.say(0, Stopped{{0}, {}});
  CHECK(play.end().kind == report::Cause::Kind::agent_lost);  // two of three

  Play other(with_spares(5, 2));
  other.run();
  other.lose(1, "gone");
  other.lose(2, "gone");
  other.say(0, Stopped{{0}, {}});
  other.store_ready(1);
  CHECK(started(other) == Ranks{{0, 0}, {3, 2}, {4, 4}});
}

// As fail_and_restart(), by a fault of the GPU.
void fail_by_gpu(Play& play, int agent, int rank, int attempt) {
  report::Failure failure = failure_of(rank, attempt);
  failure.last_lines = {"RuntimeError: CUDA error: unspecified launch failure"};
  play.say(agent, AttemptFailed{{attempt}, failure});
  for (const auto& [other, stop] : play.sent<Stop>()) {
    if (stop.attempt.value == attempt) play.say(other, Stopped{{attempt}, {}});
  }
  play.store_ready(attempt + 1);
}

TEST_CASE("failures by hardware count over time, those of a script only in a row") {
  for (const bool hardware : {true, false}) {
    CoordinatorSettings chosen = with_spares(4, 1, 9);
    Play play(chosen);
    play.run();
    const auto fail = hardware ? fail_by_gpu : fail_and_restart;
    fail(play, 2, 4, 0);
    fail_and_restart(play, 1, 2, 1);  // another one's script between them
    play.log.clear();
    fail(play, 2, 5, 2);
    CHECK(noticed(play) == (hardware ? "n3 failed first in 2 attempts; n4 replaces it\n" : ""));
  }
}

TEST_CASE("--replace-after says how many failures are too many, and 0 that none are") {
  for (const int most : {0, 1, 3}) {
    CoordinatorSettings chosen = with_spares(4, 1, 9);
    chosen.replace_after = most;
    Play play(chosen);
    play.run();
    int replaced_after = 0;
    for (int attempt = 0; attempt < 4 && replaced_after == 0; ++attempt) {
      fail_by_gpu(play, 2, 4, attempt);
      if (noticed(play).find("n4 replaces it") != std::string::npos) replaced_after = attempt + 1;
    }
    CHECK(replaced_after == most);
  }
}

TEST_CASE("a host whose workers fail first twice in a row is replaced") {
  Play play(with_spares(4, 1, 5));
  play.run();
  fail_and_restart(play, 2, 4, 0);
  CHECK(started(play) == Ranks{{0, 0}, {1, 2}, {2, 4}});
  play.log.clear();
  fail_and_restart(play, 2, 5, 1);
  CHECK(started(play) == Ranks{{0, 0}, {1, 2}, {3, 4}});
  CHECK(noticed(play) == "n3 failed first in 2 attempts; n4 replaces it\n");
  CHECK(standing_by(play) == std::vector<int>{2});
  play.log.clear();
  fail_and_restart(play, 3, 4, 2);  // nobody is left that would be better
  fail_and_restart(play, 3, 4, 3);
  CHECK(noticed(play).empty());
}

TEST_CASE("failures of different hosts replace none, nor do those of the coordinator's") {
  Play play(with_spares(4, 1, 9));
  play.run();
  const std::vector<int> hosts{2, 1, 2, 0, 0, 0};
  for (std::size_t attempt = 0; attempt < hosts.size(); ++attempt)
    fail_and_restart(play, hosts[attempt], hosts[attempt] * 2, static_cast<int>(attempt));
  CHECK(noticed(play).empty());
}

TEST_CASE("a host that cannot start anything is done without") {
  Join broken = join_of(2, 4);
  broken.failure = LaunchFailure{"cannot start train.py", ": no such file", true, "", 127};
  Play play(with_spares(4, 1));
  play.say(0, join_of(0, 4));
  play.say(2, broken);
  REQUIRE(play.sent<Finish>().size() == 1);
  CHECK(play.sent<Finish>()[0].first == 2);
  CHECK(play.all<CloseConnection>().size() == 1);
  play.say(1, join_of(1, 4));
  CHECK(play.all<OpenStore>().empty());
  play.say(3, join_of(3, 4));
  play.store_ready(0);
  CHECK(started(play) == Ranks{{0, 0}, {1, 2}, {3, 4}});
  CHECK(noticed(play).find("; the job starts without it\n") != std::string::npos);
}

TEST_CASE("a host that cannot start anything and comes last lets the others start at once") {
  Join broken = join_of(3, 4);
  broken.failure = LaunchFailure{"cannot start train.py", ": no such file", true, "", 127};
  Play play(with_spares(4, 1));
  for (const int agent : {0, 1, 2}) play.say(agent, join_of(agent, 4));
  CHECK(play.all<OpenStore>().empty());
  play.say(3, broken);
  CHECK(play.all<OpenStore>().size() == 1);
}

TEST_CASE("the coordinator's host is not done without") {
  Join broken = join_of(0, 4);
  broken.failure = LaunchFailure{"cannot start train.py", ": no such file", true, "", 127};
  Play play(with_spares(4, 1));
  play.say(0, broken);
  play.pass(500ms);
  CHECK(report::describe(play.end()) == "cannot start train.py on n1: no such file");
}

TEST_CASE("nothing starts before the coordinator's own agent is there") {
  Play play(with_spares(4, 2));
  for (const int agent : {1, 2, 3}) play.say(agent, join_of(agent, 4));
  play.pass(59s);
  CHECK(play.all<OpenStore>().empty());
}

TEST_CASE("where too many cannot start anything the job ends with what they said") {
  Play play(with_spares(4, 1));
  play.say(0, join_of(0, 4));
  for (const int agent : {1, 2}) {
    Join broken = join_of(agent, 4);
    broken.failure = LaunchFailure{"cannot start train.py", ": no such file", true, "", 127};
    play.say(agent, broken);
  }
  play.pass(500ms);
  CHECK(report::describe(play.end()) ==
        "cannot start train.py on n[2-3]: no such file (the same path exists on n1)");
}

TEST_CASE("who stands by hears what the others' workers have loaded, also who comes later") {
  Play play(with_spares(4, 1));
  play.all_join();
  play.store_ready(0);
  CHECK(play.sent<Modules>().empty());
  const Modules modules{{"torch", "numpy"}};
  play.say(0, modules);
  REQUIRE(play.sent<Modules>().size() == 1);
  CHECK(play.sent<Modules>()[0] == std::pair{3, modules});
  play.say(3, modules);  // it has been asked to stand by, and has no workers
  fail_and_restart(play, 1, 2, 0);
  CHECK(play.sent<Modules>().back() == std::pair{3, modules});
}

TEST_CASE("each agent learns whom it gets its copies from, one that waits too") {
  Play play(with_spares(4, 1));
  for (int agent = 3; agent >= 0; --agent) {
    Join join = join_of(agent, 4);
    join.announcement.stage_door = std::to_string(30000 + agent) + "/secret";
    join.announcement.addresses = {"10.0.0." + std::to_string(agent + 1), "n.example.org"};
    play.say(agent, join);
  }
  play.store_ready(0);
  const auto hosts_of = [](const std::vector<staging::Server>& sources) {
    std::string names;
    for (const staging::Server& source : sources) names += source.host + " ";
    return names;
  };
  std::map<int, std::string> sources;
  for (const auto& [agent, start] : play.sent<Start>()) sources[agent] = hosts_of(start.stage_sources);
  for (const auto& [agent, standby] : play.sent<Standby>()) sources[agent] = hosts_of(standby.stage_sources);
  CHECK(sources == std::map<int, std::string>{{0, ""}, {1, "n1 "}, {2, "n1 "}, {3, "n2 n1 "}});
  CHECK(play.sent<Standby>().front().second.stage_sources.front() ==
        staging::Server{"n2", "30001/secret", {"10.0.0.2"}});
}

TEST_CASE("where nothing is to be copied, nobody is named for it") {
  Play play(with_spares(4, 1));
  play.all_join();
  play.store_ready(0);
  for (const auto& [agent, start] : play.sent<Start>()) CHECK(start.stage_sources.empty());
}

TEST_CASE("a switch that is lost with all its hosts is told as one") {
  CoordinatorSettings chosen = with_spares(4, 1);
  chosen.elastic = ElasticNodes{2, 0, 30s, options::Grow::now};
  chosen.by_network = true;
  Play play(chosen);
  for (const int agent : {0, 1, 2, 3}) {
    Join join = join_of(agent, 4);
    join.announcement.network.switches = agent % 2 == 0 ? "s0/leaf1" : "s0/leaf2";
    play.say(agent, std::move(join));
  }
  play.store_ready(0);
  CHECK(started(play) == Ranks{{0, 0}, {2, 2}, {1, 4}, {3, 6}});
  play.lose(1, "the host no longer answers");
  play.lose(3, "the host no longer answers");
  for (const int agent : {0, 2}) play.say(agent, Stopped{{0}, {}});
  CHECK(
      noticed(play) ==
      "lost all 2 nodes of switch s0/leaf2 (n[2,4]): the host no longer answers; starting all workers again "
      "on 2 of 4 nodes\n");
}

namespace {

Stopped unfit_after(int attempt) {
  Stopped stopped{{attempt}, {}};
  stopped.unfit.what = "GPU: GPU 3: GPU is lost";
  stopped.unfit.remedy = "have the site reset the node";
  return stopped;
}

}  // namespace

TEST_CASE("a node that finds itself unfit after a failure is replaced before the next attempt") {
  Play play(with_spares(4, 1, 3));
  play.run();
  play.say(0, AttemptFailed{{0}, failure_of(1)});
  play.say(1, unfit_after(0));
  for (const int agent : {0, 2}) play.say(agent, Stopped{{0}, {}});
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, 0}, {3, 2}, {2, 4}});
  CHECK(play.sent<Finish>().size() == 1);
  CHECK(noticed(play) ==
        "n2 is unfit for another attempt: GPU: GPU 3: GPU is lost\n"
        "lost n2 (ranks 2-3): it is unfit for another attempt; starting all workers again on 3 of 3 nodes\n"
        "n4 replaces n2\n");
  CHECK(play.all<ShowRestart>().empty());  // the loss of a node uses none
}

TEST_CASE("the verdict about an unfit node is an event") {
  CoordinatorSettings chosen = with_spares(4, 1, 3);
  chosen.record = true;
  Play play(chosen);
  play.run();
  play.say(0, AttemptFailed{{0}, failure_of(1)});
  play.say(1, unfit_after(0));
  events::Event verdict;
  for (const Record& each : play.all<Record>())
    if (each.event.kind == events::EventKind::unfit) verdict = each.event;
  CHECK(verdict.host == "n2");
  CHECK(verdict.attempt == 0);
  CHECK(verdict.what == "n2 is unfit for another attempt: GPU: GPU 3: GPU is lost");
  CHECK(verdict.hint == "have the site reset the node");
}

TEST_CASE("the last one that says so decides as well") {
  Play play(with_spares(4, 1, 3));
  play.run();
  play.say(0, AttemptFailed{{0}, failure_of(1)});
  for (const int agent : {0, 2}) play.say(agent, Stopped{{0}, {}});
  play.say(1, unfit_after(0));
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, 0}, {3, 2}, {2, 4}});
}

TEST_CASE("an unfit node whose place no other can take ends the job instead of a restart") {
  for (const bool elastic : {true, false}) {
    Play play(elastic ? with_spares(2, 0, 3) : settings(2, 3));
    play.run();
    play.say(0, AttemptFailed{{0}, failure_of(1)});
    play.say(1, unfit_after(0));
    play.say(0, Stopped{{0}, {}});
    CHECK(play.all<ShowRestart>().empty());
    CHECK(exit_code_of(play.end()) == k_exit_unfit);
    CHECK(play.end().detail ==
          "n2 is unfit for another attempt: GPU: GPU 3: GPU is lost, and no other node can take its place");
    CHECK(play.end().hint == "have the site reset the node");
  }
}

TEST_CASE("a node that is only worse than before stays where no other can take its place") {
  for (const bool elastic : {true, false}) {
    Play play(elastic ? with_spares(2, 0, 3) : settings(2, 3));
    play.run();
    play.say(0, AttemptFailed{{0}, failure_of(1)});
    Stopped worse = unfit_after(0);
    worse.unfit.may_stay = true;
    play.say(1, worse);
    play.say(0, Stopped{{0}, {}});
    CHECK(play.all<ShowRestart>().size() == 1);
    CHECK(noticed(play) ==
          "n2 is unfit for another attempt: GPU: GPU 3: GPU is lost; it stays, as no other node can take its "
          "place\n");
  }
}

TEST_CASE("a failure without a restart stays the cause, whether a node is unfit or not") {
  Play play(settings(2, 0));
  play.run();
  play.say(0, AttemptFailed{{0}, failure_of(1)});
  play.say(1, unfit_after(0));
  play.say(0, Stopped{{0}, {}});
  CHECK(play.end().kind == report::Cause::Kind::worker_failed);
}

TEST_CASE("an unfit node is no news in a job that ends") {
  Play ends(with_spares(4, 1, 3));
  ends.run();
  ends.say(0, StopRequest{15, "n1", false});
  ends.say(1, unfit_after(0));
  for (const int agent : {0, 2}) ends.say(agent, Stopped{{0}, {}});
  CHECK(ends.end().kind == report::Cause::Kind::stopped_by_signal);
  CHECK(noticed(ends).empty());
}

TEST_CASE("a spare looks at its node before it is needed, and an unfit one is not taken") {
  CoordinatorSettings chosen = with_spares(5, 2, 3);
  chosen.looks_at_spares = true;
  Play play(chosen);
  play.run();
  play.say(0, AttemptFailed{{0}, failure_of(1)});
  CHECK(play.sent<Look>().size() == 2);
  play.say(1, unfit_after(0));
  for (const int agent : {0, 2}) play.say(agent, Stopped{{0}, {}});
  play.say(3, Looked{{0}, {"GPU: GPU 1: GPU is lost", "have the site reset the node"}});
  CHECK(play.all<OpenStore>().empty());  // the other one still looks
  play.say(4, Looked{{0}});
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, 0}, {4, 2}, {2, 4}});
  CHECK(noticed(play).find("n4 is unfit for another attempt: GPU: GPU 1: GPU is lost\n") !=
        std::string::npos);
}

TEST_CASE("a spare that is lost while it looks holds nobody back") {
  CoordinatorSettings chosen = with_spares(3, 1, 3);
  chosen.looks_at_spares = true;
  Play play(chosen);
  play.run();
  play.say(0, AttemptFailed{{0}, failure_of(1)});
  for (const int agent : {0, 1}) play.say(agent, Stopped{{0}, {}});
  play.lose(2, "the connection broke");
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, 0}, {1, 2}});
}

TEST_CASE("a spare that does not say what it has found is as good as before once the stop is over") {
  CoordinatorSettings chosen = with_spares(3, 1, 3);
  chosen.looks_at_spares = true;
  chosen.stop_timeout = 10s;
  Play play(chosen);
  play.run();
  play.say(0, AttemptFailed{{0}, failure_of(1)});
  for (const int agent : {0, 1}) play.say(agent, Stopped{{0}, {}});
  CHECK(play.all<OpenStore>().empty());
  play.pass(11s);
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, 0}, {1, 2}});
  CHECK(noticed(play).empty());
}

TEST_CASE("a job that a signal stops has not succeeded where a node was lost, whatever the others say") {
  for (const bool lost : {true, false}) {
    Play play(settings(2));
    play.run();
    play.say(0, StopRequest{15, "n1", false});
    if (lost) play.lose(1, "gone");
    for (const int agent : {0, 1}) {
      if (lost && agent == 1) continue;
      play.say(agent, AttemptSucceeded{{0}});
      play.say(agent, Stopped{{0}, {}});
    }
    CHECK(play.end().kind == (lost ? report::Cause::Kind::stopped_by_signal : report::Cause::Kind::success));
  }
}

TEST_CASE("a stop says whether another attempt may follow") {
  const auto said = [](Play& play) {
    std::vector<bool> all;
    for (const auto& [agent, stop] : play.sent<Stop>()) all.push_back(stop.again);
    return all;
  };
  Play restarts(settings(2, 3));
  restarts.run();
  restarts.say(0, AttemptFailed{{0}, failure_of(1)});
  CHECK(said(restarts) == std::vector<bool>{true, true});

  Play ends(settings(2, 0));
  ends.run();
  ends.say(0, AttemptFailed{{0}, failure_of(1)});
  CHECK(said(ends) == std::vector<bool>{false, false});

  Play asked(settings(2, 3));
  asked.run();
  asked.say(0, StopRequest{15, "n1", false});
  CHECK(said(asked) == std::vector<bool>{false, false});
}
