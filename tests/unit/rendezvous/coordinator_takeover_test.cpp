// A coordinator that takes over: whom it gathers, when it begins, and what it goes on with.
#include "catch.hpp"
#include "coordinator_play.hpp"
#include "rendezvous/host_limits.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::test::coordinator;
using namespace std::chrono_literals;

namespace {

constexpr int k_agents = 4;

CoordinatorSettings elastic(int least = 1) {
  CoordinatorSettings chosen = settings(k_agents, 3);
  chosen.elastic = ElasticNodes{least, 0, std::nullopt, options::Grow::now};
  chosen.succession = true;
  chosen.launch_id = "abc";
  return chosen;
}

// n2 has lost n1.
CoordinatorSettings successor(int least = 1) {
  CoordinatorSettings chosen = elastic(least);
  chosen.own = {1};
  chosen.takeover = Takeover{"lost the coordinator n1: it is gone", 10s};
  return chosen;
}

Join survivor_of(int agent, std::vector<int> ended = {}, int attempt = 2) {
  Join join = join_of(agent, k_agents);
  join.announcement.successor_port = 20000 + agent;
  Survivor& survivor = join.survivor.emplace();
  survivor.ended = std::move(ended);
  survivor.roster.rolls = {{1, {{0, 3}}}};
  survivor.roster.coordinator = {0};
  survivor.roster.host = "n1";
  survivor.roster.attempt = {attempt};
  survivor.roster.used_restarts = 1;
  survivor.roster.launch_id = "abc";
  survivor.roster.own = {agent};
  survivor.roster.slot = agent;
  survivor.roster.counts = true;
  return join;
}

// Connection 0 is the process' own.
Play gathering(int least = 1) {
  Play play(successor(least));
  play.say(0, survivor_of(1));
  return play;
}

std::string noticed(const Play& play) {
  std::string all;
  for (const ShowNotice& each : play.all<ShowNotice>()) all += each.notice.what + "\n";
  return all;
}

}  // namespace

TEST_CASE("with all others here, and the old coordinator ended, the next attempt begins at once") {
  Play play = gathering();
  play.say(2, survivor_of(2, {0}));
  CHECK(play.all<OpenStore>().empty());
  play.say(3, survivor_of(3));
  REQUIRE(play.all<OpenStore>().size() == 1);
  CHECK(play.all<OpenStore>()[0].attempt == Attempt{3});
  CHECK(noticed(play) ==
        "lost the coordinator n1: it is gone; n2 coordinates now; starting all workers again on 3 of 4 "
        "nodes\n");
  play.store_ready(3);
  const auto starts = play.sent<Start>();
  REQUIRE(starts.size() == 3);
  CHECK(plan::ranks_of(starts[0].second.assignment) == std::vector<int>{0, 1});
  CHECK(plan::ranks_of(starts[2].second.assignment) == std::vector<int>{4, 5});
  CHECK(starts[0].second.assignment.launch_id == "abc");
}

TEST_CASE("it waits for the old coordinator to have stopped its workers where that may live") {
  Play play = gathering();
  play.say(2, survivor_of(2));
  play.say(3, survivor_of(3));
  play.pass(wait_for_coordinator(10s) - 1ms);
  CHECK(play.all<OpenStore>().empty());
  play.pass(1ms);
  CHECK(play.all<OpenStore>().size() == 1);
}

TEST_CASE("it waits longer where others are missing, and not at all for less than a majority") {
  Play play = gathering();
  play.pass(1s);
  play.say(2, survivor_of(2, {0}));
  play.pass(wait_for_others(10s) - 1ms);
  CHECK(play.all<OpenStore>().empty());
  play.pass(1ms);
  CHECK(play.all<OpenStore>().size() == 1);

  Play alone = gathering();
  alone.pass(longest_search(10s) - 1ms);
  CHECK(alone.all<EndJob>().empty());
  alone.pass(1ms);
  CHECK(alone.end().kind == report::Cause::Kind::agent_lost);
  CHECK(alone.end_text() ==
        "lost the coordinator n1: it is gone; 1 of 4 nodes can be reached from here, too few to continue "
        "without the others");
}

TEST_CASE("a majority that is lost again before the time has come begins nothing") {
  Play play = gathering();
  play.say(2, survivor_of(2));
  play.say(3, survivor_of(3));
  play.pass(4s);
  play.lose(3, "it is gone");
  play.lose(2, "it is gone");
  play.pass(20s);
  CHECK(play.all<OpenStore>().empty());
  play.say(12, survivor_of(2));
  play.say(13, survivor_of(3));
  play.pass(wait_for_coordinator(10s) - 1ms);
  CHECK(play.all<OpenStore>().empty());
  play.pass(1ms);
  CHECK(play.all<OpenStore>().size() == 1);
}

TEST_CASE(
    "with fewer nodes than are asked for the job ends, once nodes that waited for a place can have come") {
  Play play = gathering(4);
  play.say(2, survivor_of(2, {0}));
  play.say(3, survivor_of(3));
  play.pass(wait_for_late(10s) - 1ms);
  CHECK(play.all<EndJob>().empty());
  play.pass(1ms);
  CHECK(play.end_text() ==
        "lost the coordinator n1: it is gone; 3 nodes left, and --nnodes asks for 4 at least");
}

TEST_CASE("only who was part of the job before is gathered") {
  Play play = gathering();
  Join stranger = join_of(2, k_agents);
  Join other = survivor_of(3);
  other.survivor->roster.launch_id = "xyz";
  play.say(2, stranger);
  play.say(3, other);
  play.say(4, survivor_of(1));
  const auto refused = play.sent<Refused>();
  REQUIRE(refused.size() == 3);
  CHECK(refused[0].second.reason == "the job has lost its coordinator, and n3 was not part of it before");
}

TEST_CASE("restarts that were used count on") {
  Play play = gathering();
  play.say(2, survivor_of(2, {0}));
  play.say(3, survivor_of(3));
  play.store_ready(3);
  play.say(2, AttemptFailed{{3}, failure_of(2, 3)});
  for (const int connection : {0, 2, 3}) play.say(connection, Stopped{{3}, {}});
  const auto restarts = play.all<ShowRestart>();
  REQUIRE(restarts.size() == 1);
  CHECK(restarts[0].restarts == 2);
}

TEST_CASE("the agents are told of each other before they start, and again when an earlier roll is settled") {
  Play play(elastic());
  for (int agent = 0; agent < k_agents; ++agent) {
    Join join = join_of(agent, k_agents);
    join.announcement.successor_port = 20000 + agent;
    join.announcement.addresses = {"10.0.0." + std::to_string(agent + 1)};
    play.say(agent, join);
  }
  const auto told = play.sent<Roster>();
  REQUIRE(told.size() == 3);
  const Roster& first = told[0].second;
  CHECK(first.rolls == std::vector<Roll>{{1, {{0, 3}}}});
  CHECK(first.own == AgentIndex{1});
  CHECK(first.counts);
  CHECK(first.slot == 1);
  REQUIRE(first.successors.size() == 3);
  CHECK(first.successors[0] == Successor{{1}, "n2", {"10.0.0.2"}, 20001});
  play.store_ready(0);
  play.log.clear();
  play.lose(3, "the host is out of reach");
  for (const int agent : {0, 1, 2}) play.say(agent, Stopped{{0}, {}});
  REQUIRE(play.sent<Roster>().size() == 2);
  CHECK(play.sent<Roster>()[0].second.rolls.size() == 2);
  play.log.clear();
  play.say(1, RosterTaken{2});
  CHECK(play.sent<Roster>().empty());
  play.say(2, RosterTaken{2});  // 3 of 4
  REQUIRE(play.sent<Roster>().size() == 2);
  CHECK(play.sent<Roster>()[0].second.rolls == std::vector<Roll>{{2, {{0, 2}}}});
}

namespace {

// The latest that each agent was told.
Roster told_last(const Play& play) {
  const auto told = play.sent<Roster>();
  REQUIRE_FALSE(told.empty());
  return told.back().second;
}

}  // namespace

TEST_CASE("when somebody asks for the end of the job all hear that it goes on under no other coordinator") {
  const bool restarts = GENERATE(false, true);  // the attempt is being stopped already
  Play play(elastic());
  play.all_join();
  play.store_ready(0);
  if (restarts) play.lose(3, "it is gone");
  play.log.clear();
  play.say(2, StopRequest{2, "n3"});
  CHECK(told_last(play).ending == Ending{2, "n3"});
  CHECK(play.sent<Roster>().size() == (restarts ? 2 : 3));
  CHECK(play.sent<Stop>().size() == (restarts ? 0 : 4));
}

TEST_CASE("a restart that waits is known to the agents as used") {
  CoordinatorSettings chosen = elastic();
  chosen.restarts.backoff = sourced(Milliseconds(5s), "--restart-backoff");
  Play play(std::move(chosen));
  play.all_join();
  play.store_ready(0);
  CHECK(told_last(play).used_restarts == 0);
  play.say(2, AttemptFailed{{0}, failure_of(4)});
  for (int agent = 0; agent < k_agents; ++agent) play.say(agent, Stopped{{0}, {}});
  CHECK(play.all<OpenStore>().size() == 1);
  CHECK(told_last(play).used_restarts == 1);
}

TEST_CASE("a node that was set aside stays so under the next coordinator, and is the last to become it") {
  CoordinatorSettings chosen = successor();
  chosen.elastic->spares = 1;
  chosen.elastic->least = 2;
  Play play(std::move(chosen));
  Join bad = survivor_of(2, {0});
  bad.survivor->roster.aside = true;
  bad.survivor->roster.slot.reset();
  play.say(0, survivor_of(1));
  play.say(2, bad);
  play.say(3, survivor_of(3));
  REQUIRE(play.sent<Roster>().size() == 2);
  CHECK(play.sent<Standby>().size() == 0);  // there is a place for each of the three
  for (const auto& [agent, roster] : play.sent<Roster>()) {
    CHECK(roster.aside == (agent == 2));
    REQUIRE(roster.successors.size() == 2);
    CHECK(roster.successors[0].host == "n4");
    CHECK(roster.successors[1].host == "n3");
  }
}

TEST_CASE("when a node comes or goes that waits, the others hear whom to look for") {
  CoordinatorSettings chosen = elastic();
  chosen.elastic->grow = options::Grow::at_restart;
  Play play(std::move(chosen));
  const auto join = [&](int agent) {
    Join joining = join_of(agent, k_agents);
    joining.announcement.successor_port = 20000 + agent;
    play.say(agent, joining);
  };
  for (const int agent : {0, 1, 3}) join(agent);
  play.pass(60s);
  play.store_ready(0);
  play.log.clear();
  join(2);
  auto told = play.sent<Roster>();
  REQUIRE(told.size() == 3);
  for (const auto& [agent, roster] : told) {
    CHECK(roster.successors.size() == 3);
    CHECK(roster.number() == 1);
    CHECK(roster.counts == (agent != 2));
  }
  play.log.clear();
  play.lose(2, "it is gone");
  told = play.sent<Roster>();
  REQUIRE(told.size() == 2);
  CHECK(told[0].second.successors.size() == 2);
}

TEST_CASE("a coordinator that has lost the majority ends the job here at once") {
  Play play(elastic());
  play.all_join();
  play.store_ready(0);
  play.log.clear();
  play.lose(1, "the host is out of reach");
  CHECK(play.all<EndJob>().empty());
  play.lose(2, "the host is out of reach");
  CHECK(play.all<EndJob>().empty());  // a half, with the lowest place
  play.lose(3, "the host is out of reach");
  CHECK(play.end().kind == report::Cause::Kind::agent_lost);
  CHECK(play.end_text() ==
        "lost n4 (ranks 6-7): the host is out of reach; 1 of 4 nodes can be reached from here, and the "
        "others may continue without them");
}

TEST_CASE("an agent that was let go counts against those here until its connection has ended") {
  for (const bool has_ended : {false, true}) {
    CoordinatorSettings chosen = settings(5, 3);
    chosen.elastic = ElasticNodes{1, 0, std::nullopt, options::Grow::now};
    chosen.succession = true;
    Play play(chosen);
    play.all_join();
    play.store_ready(0);
    play.say(0, RestartRequest{1, "n5", "ada"});
    for (const int agent : {0, 1, 2, 3, 4}) play.say(agent, Stopped{{0}, {}});
    CHECK(play.all<CloseConnection>().size() == 1);
    if (has_ended) play.take(play.coordinator.on_closed({4}, "it ended", play.now, ConnectionEnd::ended));
    play.lose(1, "the host is out of reach");
    CHECK(play.all<EndJob>().empty());
    play.lose(2, "the host is out of reach");  // two of five, or of four with the lowest place
    CHECK(play.all<EndJob>().empty() == has_ended);
  }
}
