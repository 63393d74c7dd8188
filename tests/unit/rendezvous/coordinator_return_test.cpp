// A fixed number of nodes waits for one that is lost and may be started again.
#include "coordinator_play.hpp"

using namespace ddprun;
using namespace ddprun::test::coordinator;

namespace {

CoordinatorSettings returning(int agents, int max_restarts) {
  CoordinatorSettings result = settings(agents, max_restarts);
  result.return_timeout = 60s;
  return result;
}

void join_again(Play& play, int agent) {
  Join join = join_of(agent, play.agents);
  join.announcement.max_restarts = play.restarts;
  play.lost.erase(agent);
  play.say(agent, join);
}

std::string last_notice(const Play& play) {
  const auto notices = play.all<ShowNotice>();
  return notices.empty() ? "" : notices.back().notice.what + " | " + notices.back().notice.hint;
}

}  // namespace

TEST_CASE("a lost node is waited for and taken back under its ranks, as often as there are restarts") {
  Play play(returning(2, 2));
  play.run();
  for (const int attempt : {0, 1}) {
    INFO(attempt);
    play.log.clear();
    play.lose(1, "the other side closed the connection");
    REQUIRE(play.sent<Stop>().size() == 1);
    play.say(0, Stopped{{attempt}, {}});
    CHECK(play.all<EndJob>().empty());
    CHECK(last_notice(play) ==
          "lost n2 (ranks 2-3): the other side closed the connection; waiting up to 60 s for it to return "
          "(restart " +
              std::to_string(attempt + 1) + " of 2) | start ddprun there again with the same line");
    join_again(play, 1);
    CHECK(last_notice(play) == "all nodes are here again; starting all workers again | ");
    play.store_ready(attempt + 1);
    const auto starts = play.sent<Start>();
    REQUIRE(starts.size() == 2);
    CHECK(starts[1].second.assignment.attempt == Attempt{attempt + 1});
    CHECK(starts[1].second.assignment.workers[0].rank == GlobalRank{2});
    CHECK(starts[1].second.pause >= 60s);  // members wait as long for the next start
  }
  play.log.clear();
  play.lose(1, "the other side closed the connection");
  play.say(0, Stopped{{2}, {}});
  CHECK(play.end().kind == report::Cause::Kind::agent_lost);
  CHECK(play.end_text() == "lost n2 (ranks 2-3): the other side closed the connection");
}

TEST_CASE("a lost node may be back before the others have stopped") {
  Play play(returning(3, 1));
  play.run();
  play.lose(1, "gone");
  play.say(0, Stopped{{0}, {}});
  join_again(play, 1);
  CHECK(play.all<EndJob>().empty());
  CHECK(play.sent<Refused>().empty());
  play.say(2, Stopped{{0}, {}});
  play.store_ready(1);
  CHECK(play.sent<Start>().size() == 3);
}

TEST_CASE("a node that does not return in time ends the job, and so does a signal meanwhile") {
  Play play(returning(2, 1));
  play.run();
  play.lose(1, "gone");
  play.say(0, Stopped{{0}, {}});
  play.pass(60s);
  CHECK(play.end().kind == report::Cause::Kind::deadline);
  CHECK(play.end_text() == "gave up after 60 s waiting for 1 of 2 nodes: n2; lost n2 (ranks 2-3): gone");

  Play stopped(returning(2, 1));
  stopped.run();
  stopped.lose(1, "gone");
  stopped.say(0, Stopped{{0}, {}});
  stopped.say(0, StopRequest{15, "n1", false, ""});
  CHECK(stopped.end().kind == report::Cause::Kind::stopped_by_signal);
}

TEST_CASE("a second node that is lost meanwhile is waited for too, within the same restart") {
  Play play(returning(3, 1));
  play.run();
  play.lose(1, "gone");
  play.lose(2, "gone");
  play.say(0, Stopped{{0}, {}});
  CHECK(play.all<EndJob>().empty());
  join_again(play, 2);
  join_again(play, 1);
  play.store_ready(1);
  CHECK(play.sent<Start>().size() == 3);
}

namespace {

constexpr int k_second = 7;  // connection of another process for the place of agent 1

Join second_join(const Play& play) {
  Join join = join_of(1, play.agents);
  join.announcement.max_restarts = play.restarts;
  return join;
}

}  // namespace

TEST_CASE("a node that is back before its loss is noticed waits, and is taken back once it is") {
  Play play(returning(2, 1));
  play.run();
  play.say(k_second, second_join(play));
  CHECK(play.sent<Refused>().empty());
  play.lose(1, "gone");
  CHECK(play.all<EndJob>().empty());
  play.say(0, Stopped{{0}, {}});
  CHECK(last_notice(play) == "all nodes are here again; starting all workers again | ");
  play.store_ready(1);
  const auto starts = play.sent<Start>();
  REQUIRE(!starts.empty());
  CHECK(starts.back().first == k_second);
  CHECK(starts.back().second.assignment.attempt == Attempt{1});
}

TEST_CASE("a second process for a place whose agent lives is refused after the time that a loss takes") {
  CoordinatorSettings chosen = returning(2, 1);
  chosen.silence = 20s;
  Play play(chosen);
  play.run();
  play.say(k_second, second_join(play));
  REQUIRE(play.coordinator.deadline());
  play.pass(24s);
  CHECK(play.sent<Refused>().empty());
  play.pass(1s);
  REQUIRE(play.sent<Refused>().size() == 1);
  CHECK(play.sent<Refused>()[0].first == k_second);
  CHECK(play.sent<Refused>()[0].second.reason ==
        "another ddprun has already joined in the place of n2 (number 1)");
}

TEST_CASE("who waits for a place is told of the job's end, and is forgotten where it leaves") {
  Play play(returning(2, 1));
  play.run();
  play.say(k_second, second_join(play));
  play.lose(k_second, "gone");
  play.say(k_second + 1, second_join(play));
  play.say(0, AttemptSucceeded{{0}});
  play.say(1, AttemptSucceeded{{0}});
  const auto told = play.sent<Finish>();
  CHECK(std::ranges::count(told, k_second + 1, &std::pair<int, Finish>::first) == 1);
  CHECK(std::ranges::count(told, k_second, &std::pair<int, Finish>::first) == 0);
}

TEST_CASE("without restarts left, or where nothing could start it again, a lost node ends the job at once") {
  for (CoordinatorSettings chosen : {returning(2, 0), settings(2, 2)}) {
    Play play(chosen);
    play.run();
    play.lose(1, "gone");
    play.say(0, Stopped{{0}, {}});
    CHECK(play.end().kind == report::Cause::Kind::agent_lost);
  }
}
