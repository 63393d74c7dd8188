// --restart and --drain: restarts that are asked for from outside.
#include "catch.hpp"
#include "coordinator_play.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::test::coordinator;

namespace {

CoordinatorSettings elastic(int agents, int spares, int least, int max_restarts = 0) {
  CoordinatorSettings chosen = settings(agents, max_restarts);
  chosen.elastic = ElasticNodes{least, spares, 30s, options::Grow::now};
  chosen.restarts.rule = sourced(options::RestartRule::always, "--restart-policy");
  chosen.record = true;
  return chosen;
}
CoordinatorSettings with_spares(int agents, int spares, int max_restarts = 0) {
  return elastic(agents, spares, agents - spares, max_restarts);
}

void ask(Play& play, int agent, const std::string& drained = {}, int number = 1) {
  play.say(agent, RestartRequest{number, drained, "ada (pid 123) on n1"});
}

// Each reply: "+2 sentence" to agent 2 if it was accepted, else "-2 sentence | hint".
std::string replies(const Play& play) {
  std::string all;
  for (const auto& [agent, reply] : play.sent<RestartReply>()) {
    all += (reply.accepted ? "+" : "-") + std::to_string(agent) + " " + reply.what;
    all += (reply.hint.empty() ? "" : " | " + reply.hint) + "\n";
  }
  return all;
}

std::string noticed(const Play& play) {
  std::string all;
  for (const ShowNotice& each : play.all<ShowNotice>()) all += each.notice.what + "\n";
  return all;
}

std::vector<std::string> events_of(const Play& play, events::EventKind kind) {
  std::vector<std::string> all;
  for (const Record& each : play.all<Record>()) {
    if (each.event.kind == kind) all.push_back(each.event.what);
  }
  return all;
}

using Ranks = std::map<int, int>;  // the first of each agent

Ranks started(const Play& play) {
  Ranks found;
  for (const auto& [agent, start] : play.sent<Start>())
    found[agent] = start.assignment.workers.front().rank.value;
  return found;
}

// The agents that were let go, and have been told so.
std::vector<int> drained(const Play& play) {
  std::vector<int> found;
  for (const auto& [agent, finish] : play.sent<Finish>()) {
    if (finish.drained) found.push_back(agent);
  }
  return found;
}

void stop(Play& play, const std::vector<int>& agents, int attempt = 0) {
  for (const int agent : agents) play.say(agent, Stopped{{attempt}, {}});
}

const std::string k_drained = "n2 is drained, as asked by ada (pid 123) on n1";

}  // namespace

TEST_CASE("a restart that is asked for stops all workers, starts them again and uses no restart") {
  CoordinatorSettings chosen = settings(2);
  chosen.record = true;
  Play play(chosen);
  play.run();
  ask(play, 1, {}, 7);
  REQUIRE(play.sent<RestartReply>().size() == 1);
  CHECK(play.sent<RestartReply>()[0].second.number == 7);
  CHECK(replies(play) == "+1 all workers are being stopped; attempt 1 follows\n");
  CHECK(play.sent<Stop>().size() == 2);
  stop(play, {0, 1});
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, 0}, {1, 2}});
  CHECK(play.sent<Start>()[0].second.assignment.attempt.value == 1);
  CHECK(play.all<ShowRestart>().empty());
  CHECK(noticed(play) ==
        "restart asked for by ada (pid 123) on n1; starting all workers again on 2 of 2 nodes\n");
  CHECK(events_of(play, events::EventKind::asked) ==
        std::vector<std::string>{"restart asked for by ada (pid 123) on n1"});
  play.log.clear();
  ask(play, 1);  // and another one
  stop(play, {0, 1}, 1);
  play.store_ready(2);
  CHECK(started(play).size() == 2);
}

TEST_CASE("a second request while the job restarts changes nothing and is no error") {
  Play play(settings(2));
  play.run();
  ask(play, 0);
  ask(play, 1);
  play.say(0, Stopped{{0}, {}});
  ask(play, 1);
  play.say(1, Stopped{{0}, {}});
  ask(play, 0);  // while the store is opened
  play.store_ready(1);
  CHECK(replies(play) ==
        "+0 all workers are being stopped; attempt 1 follows\n+1 the job is restarting already\n"
        "+1 the job is restarting already\n+0 the job is restarting already\n");
  CHECK(started(play).size() == 2);
  CHECK(play.sent<Stop>().size() == 2);
}

TEST_CASE("a restart is declined before the workers run and while the job ends") {
  Play early(settings(2));
  early.say(0, join_of(0, 2));
  ask(early, 0);
  CHECK(replies(early) ==
        "-0 the workers do not run yet; the job is waiting for 1 of 2 nodes: n2 | ask again once they do\n");

  Play signalled(settings(2));
  signalled.run();
  signalled.say(0, StopRequest{15, "n1", false});
  ask(signalled, 1);
  CHECK(replies(signalled) == "-1 the job is ending\n");
  signalled.all_stopped(0);
  CHECK(signalled.end().kind == report::Cause::Kind::stopped_by_signal);

  Play failed(settings(2));
  failed.run();
  failed.say(0, AttemptFailed{{0}, failure_of(0)});
  ask(failed, 1);
  failed.all_stopped(0);
  CHECK(replies(failed) == "-1 the job is ending\n");
  CHECK(failed.end().kind == report::Cause::Kind::worker_failed);
}

TEST_CASE("a restart that is asked for while a failure is answered is that restart") {
  Play play(settings(2, 1));
  play.run();
  play.say(0, AttemptFailed{{0}, failure_of(0)});
  ask(play, 1);
  play.all_stopped(0);
  CHECK(replies(play) == "+1 the job is restarting already\n");
  CHECK(play.all<ShowRestart>().size() == 1);
}

TEST_CASE("a failure or a signal beside a restart that was asked for") {
  Play failed(settings(2));
  failed.run();
  ask(failed, 0);
  failed.say(1, AttemptFailed{{0}, failure_of(2)});
  failed.all_stopped(0);
  failed.store_ready(1);
  CHECK(started(failed).size() == 2);

  Play signalled(settings(2));
  signalled.run();
  ask(signalled, 0);
  signalled.say(0, StopRequest{15, "n1", false});
  signalled.all_stopped(0);
  CHECK(signalled.end().kind == report::Cause::Kind::stopped_by_signal);

  Play lost(settings(2));
  lost.run();
  ask(lost, 0);
  lost.lose(1, "gone");
  lost.say(0, Stopped{{0}, {}});
  CHECK(lost.end().kind == report::Cause::Kind::agent_lost);
}

TEST_CASE("workers that have all succeeded before the stop are not started again") {
  Play play(settings(2));
  play.run();
  ask(play, 0);
  for (const int agent : {0, 1}) play.say(agent, AttemptSucceeded{{0}});
  play.all_stopped(0);
  CHECK(play.end().kind == report::Cause::Kind::success);
}

TEST_CASE("where a lost node may return, a restart that is asked for waits for none and uses none") {
  CoordinatorSettings chosen = settings(2, 1);
  chosen.return_timeout = 60s;
  Play play(chosen);
  play.run();
  ask(play, 0);
  play.all_stopped(0);
  play.store_ready(1);
  CHECK(started(play).size() == 2);
  play.log.clear();
  ask(play, 0);
  play.lose(1, "gone");
  play.say(0, Stopped{{1}, {}});
  CHECK(noticed(play) ==
        "restart asked for by ada (pid 123) on n1; lost n2 (ranks 2-3): gone; waiting up to 60 s for it to "
        "return (restart 1 of 1)\n");
}

TEST_CASE("a drained node is let go once all workers have stopped, and a spare takes its place") {
  Play play(with_spares(4, 1));
  play.run();
  ask(play, 2, "N2.site");
  CHECK(replies(play) == "+2 all workers start again without N2.site\n");
  CHECK(drained(play).empty());
  stop(play, {0, 1});
  CHECK(drained(play) == std::vector<int>{1});
  CHECK(play.all<CloseConnection>().size() == 1);
  play.take(play.coordinator.on_closed({1}, "the other side closed", play.now));
  stop(play, {2});
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, 0}, {3, 2}, {2, 4}});
  CHECK(noticed(play) == k_drained + "; starting all workers again on 3 of 3 nodes\nn4 replaces n2\n");
  CHECK(play.all<ShowRestart>().empty());
  CHECK(events_of(play, events::EventKind::lost) == std::vector<std::string>{k_drained});
  CHECK(events_of(play, events::EventKind::asked) == std::vector<std::string>{k_drained});
  play.log.clear();
  ask(play, 0, "n2");
  CHECK(replies(play) == "+0 n2 has left the job already\n");
  CHECK(play.sent<Stop>().empty());
}

TEST_CASE("a node is drained once, though it is asked for twice") {
  Play play(with_spares(4, 1));
  play.run();
  ask(play, 0, "n2");
  ask(play, 1, "n2");
  ask(play, 2, "n3");  // there is one spare only
  CHECK(replies(play) ==
        "+0 all workers start again without n2\n+1 n2 is being drained already\n"
        "-2 no other node can take the place of n3: 2 nodes would be left, and the job needs 3 | start the "
        "job with a lower MIN in --nnodes MIN:MAX, or with more --spares\n");
  stop(play, {0, 1, 2});
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, 0}, {3, 2}, {2, 4}});
  CHECK(drained(play) == std::vector<int>{1});
}

TEST_CASE("a drain while a failure is answered uses no restart") {
  Play play(elastic(3, 0, 2, 1));
  play.run();
  play.say(0, AttemptFailed{{0}, failure_of(0)});
  play.say(1, Stopped{{0}, {}});
  ask(play, 0, "n2");  // it has stopped already
  CHECK(drained(play) == std::vector<int>{1});
  stop(play, {0, 2});
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, 0}, {2, 2}});
  CHECK(play.all<ShowRestart>().empty());

  Play other(elastic(3, 0, 2, 1));
  other.run();
  other.say(0, AttemptFailed{{0}, failure_of(0)});
  ask(other, 0, "n2");
  CHECK(drained(other).empty());
  stop(other, {0, 1, 2});
  other.store_ready(1);
  CHECK(started(other) == Ranks{{0, 0}, {2, 2}});

  Play last(elastic(3, 0, 2, 0));
  last.run();
  last.say(0, AttemptFailed{{0}, failure_of(0)});
  ask(last, 0, "n2");
  CHECK(replies(last) == "-0 the job is ending\n");
}

TEST_CASE("what cannot be drained is declined with a reason") {
  Play fixed(settings(3));
  fixed.run();
  ask(fixed, 0, "n2");
  ask(fixed, 0, "n9");
  CHECK(replies(fixed) ==
        "-0 no other node can take the place of n2 | a job that is started with --nnodes MIN:MAX or --spares "
        "goes on without a drained node\n"
        "-0 n9 is not a node of this job | the nodes of the job: n1, n2, n3\n");

  Play least(elastic(2, 0, 2));
  least.run();
  ask(least, 0, "n2");
  CHECK(replies(least).starts_with(
      "-0 no other node can take the place of n2: 1 node would be left, and the job needs 2 | "));

  Play own(elastic(3, 0, 1));
  own.run();
  ask(own, 1, "n1");
  CHECK(replies(own) ==
        "-1 n1 coordinates the job and cannot be drained | stop the job, and start it without this node\n");
  for (Play* each : {&fixed, &least, &own}) CHECK(each->sent<Stop>().empty());

  Play many(elastic(11, 0, 1));
  many.run();
  ask(many, 0, "m\x1b");
  CHECK(replies(many) ==
        "-0 m\\x1b is not a node of this job | the nodes of the job: n1, n2, n3, n4, n5, n6, n7, n8 and 3 "
        "more\n");
}

TEST_CASE("a spare that is drained is let go, and the workers run on") {
  Play play(with_spares(4, 1));
  play.run();
  ask(play, 3, "n4");
  CHECK(replies(play) == "+3 n4, which runs no workers, leaves the job\n");
  CHECK(drained(play) == std::vector<int>{3});
  CHECK(play.sent<Stop>().empty());
  CHECK(noticed(play) == "n4 is drained, as asked by ada (pid 123) on n1; it was a spare\n");
  ask(play, 0, "n2");
  CHECK(replies(play).find("-0 no other node can take the place of n2") != std::string::npos);
}

TEST_CASE("a node that is drained while the store is opened takes no part in the next attempt") {
  Play play(with_spares(4, 1));
  play.run();
  ask(play, 0);
  stop(play, {0, 1, 2});
  ask(play, 0, "n2");
  CHECK(drained(play) == std::vector<int>{1});
  play.store_ready(2);
  CHECK(started(play) == Ranks{{0, 0}, {3, 2}, {2, 4}});
}

TEST_CASE("a node stays if the one that was to take its place is lost meanwhile") {
  Play play(with_spares(4, 1));
  play.run();
  ask(play, 0, "n2");
  play.lose(3, "gone");
  stop(play, {0, 1, 2});
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, 0}, {1, 2}, {2, 4}});
  CHECK(drained(play).empty());
  CHECK(
      noticed(play) ==
      "lost n4: gone; it was a spare\n"
      "n2 was to be drained and stays, as no other node can take its place; starting all workers again on 3 "
      "of 3 nodes\n");
}

TEST_CASE("a node that is lost while it is drained is lost once") {
  Play play(with_spares(4, 1));
  play.run();
  ask(play, 0, "n2");
  play.lose(1, "gone");
  stop(play, {0, 2});
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, 0}, {3, 2}, {2, 4}});
  CHECK(noticed(play) ==
        k_drained +
            "; lost n2 (ranks 2-3): gone; starting all workers again on 3 of 3 nodes\nn4 replaces n2\n");
}

TEST_CASE("a signal beside a drain ends the job") {
  Play play(with_spares(4, 1));
  play.run();
  ask(play, 0, "n2");
  play.say(0, StopRequest{15, "n1", false});
  stop(play, {1, 0, 2});
  CHECK(play.end().kind == report::Cause::Kind::stopped_by_signal);
  CHECK(drained(play).empty());
}
