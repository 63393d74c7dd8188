#include "catch.hpp"
#include "coordinator_play.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::test::coordinator;
using namespace std::chrono_literals;

namespace {

CoordinatorSettings slow_after(std::chrono::milliseconds window) {
  CoordinatorSettings chosen = settings(2);
  chosen.record = true;
  chosen.hang.slow = options::SlowNotice{0.1, window};
  return chosen;
}

// Steps of 100 ms of four ranks; rank 3 is 40 ms late in each. `at`: the end of the last one.
slow::NodeTrace trace(int agent, TimePoint at) {
  slow::NodeTrace node{
      std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count() - 60'000'000,
      0,
      140'000,
      {"0"},
      {}};
  const auto last = static_cast<int>(at.time_since_epoch() / 140ms);
  for (int rank = 2 * agent; rank < 2 * agent + 2; ++rank) {
    node.ranks.push_back({rank, {}});
    for (int step = std::max(last - 100, 1); step <= last; ++step) {
      // What varies a little shows that the ranks wait.
      const int varied = step * (rank + 7) * 7919 % 3000;
      const int early = rank == 3 ? 0 : 40'000 + varied;
      node.ranks.back().entries.push_back({0, 0, step, 1, 60'000'000 - (last - step) * 140'000 - early});
    }
  }
  return node;
}

void look(Play& play, int number) {
  play.pass(1s);
  for (const int agent : {0, 1}) play.say(agent, CollectivesSeen{{0}, number, trace(agent, play.now)});
}

StatusAnswer status_of(int agent, int question) {
  StatusAnswer answer{question, {"n" + std::to_string(agent + 1), {}, {}}};
  for (int rank = 2 * agent; rank < 2 * agent + 2; ++rank) {
    answer.status.workers.emplace_back().rank = rank;
    answer.status.workers.back().pid = 100 + rank;
    answer.status.workers.back().view.collective =
        status::Collective{"all_reduce", "default_pg", rank == 3 ? 6 : 7, "", rank != 3, {}};
  }
  return answer;
}

}  // namespace

TEST_CASE("the clock of the coordinator is told to who asks") {
  Play play(slow_after(10s));
  play.run();
  play.pass(1500ms);
  play.say(1, ClockQuestion{77});
  REQUIRE(play.sent<ClockReply>().size() == 1);
  CHECK(play.sent<ClockReply>()[0].first == 1);
  CHECK(play.sent<ClockReply>()[0].second == ClockReply{77, 1'500'000});
}

TEST_CASE("a slow rank is looked at, and told once") {
  Play play(slow_after(10s));
  play.run();
  int number = 0;
  while (play.sent<StatusQuestion>().empty() && number < 30) look(play, ++number);
  const auto questions = play.sent<StatusQuestion>();
  REQUIRE(questions.size() == 2);
  CHECK(questions[0].second.stacks);
  for (const int agent : {0, 1}) play.say(agent, status_of(agent, questions[0].second.question));
  REQUIRE(play.all<ShowNotice>().size() == 1);
  CHECK(play.all<ShowNotice>()[0].notice.what ==
        "rank 3 on n2 is slow: the other ranks waited for it 30 % of the last 10 s");
  CHECK(play.all<ShowNotice>()[0].notice.hint.find("--drain n2") != std::string::npos);
  while (number < 60) look(play, ++number);
  CHECK(play.all<ShowNotice>().size() == 1);
}

TEST_CASE("a slow link is told with the hosts of both ends, once, and its event has no rank") {
  Play play(slow_after(10s));
  for (const int agent : {0, 1}) {
    Join join = join_of(agent, 2);
    join.announcement.addresses = {agent == 0 ? "10.0.0.1" : "10.0.0.2"};
    play.say(agent, join);
  }
  play.store_ready(0);
  const auto look_with_links = [&](int number) {
    play.pass(1s);
    for (const int agent : {0, 1}) {
      slow::NodeTrace seen = trace(agent, play.now);
      for (slow::Entry& entry : seen.ranks.back().entries)
        entry.at = seen.ranks[0].entries[0].at + entry.sequence;
      seen.link = slow::LinkUse{agent == 0 ? "10.0.0.2" : "10.0.0.1", 20 << 20,  0,
                                agent == 1 ? 700'000 : 20'000,        1'000'000, true};
      play.say(agent, CollectivesSeen{{0}, number, seen});
    }
  };
  for (int number = 1; number < 40; ++number) look_with_links(number);
  REQUIRE(play.all<ShowNotice>().size() == 1);
  const std::string what = play.all<ShowNotice>()[0].notice.what;
  CHECK(what.starts_with(
      "the connection from n2 to n1 is slow: it carries 29 MiB/s, those of the other nodes 1000 MiB/s"));
  const auto events = play.all<Record>();
  const auto told = std::ranges::find(events, events::EventKind::slow,
                                      [](const Record& record) { return record.event.kind; });
  REQUIRE(told != events.end());
  CHECK(told->event.host == "n2");
  CHECK(told->event.rank == -1);
}

namespace {

// Two nodes train and one waits; the notice of rank 3, on the second one, has been told.
Play with_slow_node(options::OnSlow action, int spares) {
  CoordinatorSettings chosen = slow_after(10s);
  chosen.agents = 2 + spares;
  chosen.peers = {"n1", "n2", "n3"};
  chosen.peers.resize(static_cast<std::size_t>(chosen.agents));
  chosen.elastic = ElasticNodes{2, spares, 30s, options::Grow::now};
  chosen.hang.on_slow = sourced(action, "--on-slow");
  Play play(chosen);
  play.run();
  int number = 0;
  while (play.sent<StatusQuestion>().empty() && number < 30) look(play, ++number);
  const int question = play.sent<StatusQuestion>().at(0).second.question;
  for (int agent = 0; agent < 2 + spares; ++agent) play.say(agent, status_of(agent, question));
  return play;
}

}  // namespace

TEST_CASE("--on-slow replace gives the ranks of a slow rank's node to a spare") {
  Play play = with_slow_node(options::OnSlow::replace, 1);
  REQUIRE(play.all<ShowNotice>().size() == 1);
  CHECK(play.all<ShowNotice>()[0].notice.what.ends_with("; a spare takes the place of its node"));
  REQUIRE(play.sent<Stop>().size() == 2);
  play.log.clear();
  for (const int agent : {0, 1}) play.say(agent, Stopped{{0}, {}});
  play.store_ready(1);
  std::vector<int> starts;
  for (const auto& [agent, start] : play.sent<Start>()) starts.push_back(agent);
  CHECK(starts == std::vector<int>{0, 2});
}

TEST_CASE("--on-slow replace-at-restart waits for a restart that has another reason") {
  Play play = with_slow_node(options::OnSlow::replace_at_restart, 1);
  CHECK(play.sent<Stop>().empty());
  REQUIRE(play.all<ShowNotice>().size() == 1);
  CHECK(play.all<ShowNotice>()[0].notice.what.ends_with("takes the place of its node at the next restart"));
}

TEST_CASE("without a spare a slow rank's node stays, and that is said") {
  Play play = with_slow_node(options::OnSlow::replace, 0);
  CHECK(play.sent<Stop>().empty());
  REQUIRE(play.all<ShowNotice>().size() == 1);
  CHECK(play.all<ShowNotice>()[0].notice.what.ends_with("; no spare can take the place of its node"));
}

TEST_CASE("--status has the share of each rank and the period of a step") {
  Play play(slow_after(10s));
  play.run();
  for (int number = 1; number <= 8; ++number) look(play, number);
  play.log.clear();
  play.say(0, JobQuestion{});
  REQUIRE_FALSE(play.sent<StatusQuestion>().empty());
  const int question = play.sent<StatusQuestion>()[0].second.question;
  for (const int agent : {0, 1}) play.say(agent, status_of(agent, question));
  REQUIRE(play.sent<NodeShown>().size() == 2);
  CHECK(play.sent<NodeShown>()[1].second.node.workers[1].waited_percent.value_or(0) >= 20);
  CHECK(play.sent<NodeShown>()[0].second.node.workers[0].waited_percent == 0);
  REQUIRE(play.sent<JobShown>().size() == 1);
  CHECK(play.sent<JobShown>()[0].second.job.step == 140ms);
}
