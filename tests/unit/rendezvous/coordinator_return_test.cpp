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
  CHECK(play.end().kind == supervise::Cause::Kind::agent_lost);
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
  CHECK(play.end().kind == supervise::Cause::Kind::deadline);
  CHECK(play.end_text() == "gave up after 60 s waiting for n2; lost n2 (ranks 2-3): gone");

  Play stopped(returning(2, 1));
  stopped.run();
  stopped.lose(1, "gone");
  stopped.say(0, Stopped{{0}, {}});
  stopped.say(0, StopRequest{15, "n1", false, ""});
  CHECK(stopped.end().kind == supervise::Cause::Kind::stopped_by_signal);
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

TEST_CASE("without restarts left, or where nothing could start it again, a lost node ends the job at once") {
  for (CoordinatorSettings chosen : {returning(2, 0), settings(2, 2)}) {
    Play play(chosen);
    play.run();
    play.lose(1, "gone");
    play.say(0, Stopped{{0}, {}});
    CHECK(play.end().kind == supervise::Cause::Kind::agent_lost);
  }
}
