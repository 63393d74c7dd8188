// --nnodes MIN:MAX: attempts with those that are here.
#include <algorithm>
#include <map>
#include <random>

#include "catch.hpp"
#include "coordinator_play.hpp"
#include "random_seed.hpp"
#include "rendezvous/host_limits.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::test;
using namespace ddprun::test::coordinator;
using namespace std::chrono_literals;

namespace {

CoordinatorSettings elastic(int least, int most, options::Grow grow = options::Grow::now) {
  CoordinatorSettings chosen = settings(most);
  chosen.elastic = ElasticNodes{least, 0, 30s, grow};
  return chosen;
}

// The agents that were started, with the ranks of each.
std::map<int, std::vector<int>> started(const Play& play) {
  std::map<int, std::vector<int>> found;
  for (const auto& [agent, start] : play.sent<Start>()) {
    for (const plan::RankAssignment& each : start.assignment.workers) found[agent].push_back(each.rank.value);
  }
  return found;
}

using Ranks = std::map<int, std::vector<int>>;

std::vector<int> told_to_stop(const Play& play) {
  std::vector<int> found;
  for (const auto& [agent, stop] : play.sent<Stop>()) found.push_back(agent);
  return found;
}

std::string noticed(const Play& play) {
  std::string all;
  for (const ShowNotice& each : play.all<ShowNotice>()) all += each.notice.what + "\n";
  return all;
}

}  // namespace

TEST_CASE("a launch of 2:4 starts with four at once, with two or three after the last call") {
  const int here = GENERATE(2, 3, 4);
  Play play(elastic(2, 4));
  play.say(0, join_of(0, 4));
  play.pass(29s);
  for (int agent = 1; agent < here; ++agent) play.say(agent, join_of(agent, 4));
  if (here < 4) {
    CHECK(play.all<OpenStore>().empty());
    play.pass(29s);
    CHECK(play.all<OpenStore>().empty());
    play.pass(1s);
  }
  REQUIRE(play.all<OpenStore>().size() == 1);
  play.store_ready(0);
  CHECK(started(play).size() == static_cast<std::size_t>(here));
  CHECK(play.sent<Start>()[0].second.assignment.node_count == here);
  CHECK_FALSE(play.coordinator.deadline());
}

TEST_CASE("the last call begins anew where too few are left before it is over") {
  Play play(elastic(2, 3));
  play.say(0, join_of(0, 3));
  play.say(1, join_of(1, 3));
  play.pass(20s);
  play.lose(1, "it is gone");
  play.pass(5s);
  play.say(2, join_of(2, 3));
  play.pass(29s);
  CHECK(play.all<OpenStore>().empty());
  play.pass(1s);
  play.store_ready(0);
  CHECK(started(play) == Ranks{{0, {0, 1}}, {2, {2, 3}}});  // the gap is closed
}

TEST_CASE(
    "where the hosts are known they are waited for as long as a join may take, then it goes on without") {
  CoordinatorSettings chosen = elastic(2, 3);
  chosen.elastic->last_call.reset();
  Play play(std::move(chosen));
  play.say(0, join_of(0, 3));
  play.say(2, join_of(2, 3));
  play.pass(59s);
  CHECK(play.all<OpenStore>().empty());
  play.pass(1s);
  CHECK(play.all<OpenStore>().size() == 1);
}

TEST_CASE("fewer than the least end the launch at the deadline") {
  Play play(elastic(2, 3));
  play.say(0, join_of(0, 3));
  play.pass(60s);
  CHECK(play.end().kind == report::Cause::Kind::deadline);
}

TEST_CASE("a lost agent is an attempt without it, which spends no restart") {
  Play play(elastic(2, 3));
  play.run();
  play.lose(1, "the host no longer answers");
  CHECK(told_to_stop(play) == std::vector<int>{0, 2});
  play.all_stopped(0);
  CHECK(noticed(play) ==
        "lost n2 (ranks 2-3): the host no longer answers; starting all workers again on 2 of 3 nodes\n");
  CHECK(play.all<ShowRestart>().empty());
  REQUIRE(play.all<CloseStore>().size() == 1);
  REQUIRE(play.all<OpenStore>().size() == 1);
  CHECK(play.all<OpenStore>()[0].attempt == Attempt{1});
  CHECK(play.all<OpenStore>()[0].world_size == 4);
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, {0, 1}}, {2, {2, 3}}});
  CHECK(play.sent<Start>()[1].second.assignment.node == NodeIndex{1});
  play.say(0, AttemptSucceeded{{1}});
  play.say(2, AttemptSucceeded{{1}});
  CHECK(play.end().kind == report::Cause::Kind::success);
}

TEST_CASE("after a connection that was reset the next attempt waits until the workers there are killed") {
  const bool runs = GENERATE(true, false);
  Play play(elastic(1, 3));
  play.run();
  if (!runs) play.say(2, AttemptSucceeded{{0}});
  play.say(1, AttemptFailed{{0}, failure_of(2)});
  if (!runs) play.say(2, Stopped{{0}, {}});
  play.lost.insert(2);
  play.take(play.coordinator.on_closed({2}, "it was reset", play.now, ConnectionEnd::broken));
  play.all_stopped(0);
  if (runs) {
    play.pass(k_killing - 1ms);
    CHECK(play.all<OpenStore>().empty());
    play.pass(1ms);
  }
  CHECK(play.all<OpenStore>().size() == 1);
}

TEST_CASE("with fewer than the least the job ends, and says so") {
  Play play(elastic(2, 2));
  play.run();
  play.lose(1, "the host no longer answers");
  play.all_stopped(0);
  CHECK(play.end_text() ==
        "lost n2 (ranks 2-3): the host no longer answers; 1 node left, and --nnodes asks for 2 at least");
}

TEST_CASE("two lost at once are one attempt, and both are named") {
  Play play(elastic(2, 4));
  play.run();
  play.lose(1, "no answer");
  play.say(0, Stopped{{0}, {}});
  play.lose(3, "it is gone");
  play.say(2, Stopped{{0}, {}});
  CHECK(
      noticed(play) ==
      "lost n2 (ranks 2-3): no answer; lost n4 (ranks 6-7): it is gone; starting all workers again on 2 of 4 "
      "nodes\n");
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, {0, 1}}, {2, {2, 3}}});
}

TEST_CASE("of many that are lost at once three are named") {
  Play play(elastic(1, 7));
  play.run();
  for (const int agent : {1, 2, 3, 4, 5}) play.lose(agent, "no answer");
  play.say(0, Stopped{{0}, {}});
  play.say(6, Stopped{{0}, {}});
  CHECK(noticed(play).find("lost n4 (ranks 6-7): no answer; 2 more nodes have changed; starting all") !=
        std::string::npos);
}

TEST_CASE("a failure beside a lost agent counts as caused by it") {
  const bool failure_first = GENERATE(true, false);
  Play play(elastic(1, 2));
  play.run();
  if (failure_first) play.say(0, AttemptFailed{{0}, failure_of(0)});
  play.lose(1, "the connection was closed");
  if (!failure_first) play.say(0, AttemptFailed{{0}, failure_of(0)});
  play.say(0, Stopped{{0}, {}});
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, {0, 1}}});
  CHECK(play.all<ShowRestart>().empty());
}

TEST_CASE("an agent that comes back has its ranks again, in a new attempt at once") {
  Play play(elastic(1, 3));
  play.run();
  play.lose(1, "no answer");
  play.all_stopped(0);
  play.store_ready(1);
  play.log.clear();
  play.lost.erase(1);
  play.take(play.coordinator.on_message({7}, join_of(1, 3), play.now));
  CHECK(told_to_stop(play) == std::vector<int>{0, 2});
  play.say(0, Stopped{{1}, {}});
  play.say(2, Stopped{{1}, {}});
  CHECK(noticed(play) == "n2 has joined; starting all workers again on 3 of 3 nodes\n");
  play.store_ready(2);
  CHECK(started(play) == Ranks{{0, {0, 1}}, {7, {2, 3}}, {2, {4, 5}}});
}

TEST_CASE("one without a number gets the place that its host had") {
  CoordinatorSettings chosen = elastic(1, 4);
  chosen.peers.assign(4, "");
  Play play(std::move(chosen));
  play.run();
  play.lose(1, "no answer");
  play.lose(2, "no answer");
  play.all_stopped(0);
  play.store_ready(1);
  play.log.clear();
  Join join = join_of(2, 4);
  join.announcement.agent.reset();
  join.announcement.node.reset();
  play.take(play.coordinator.on_message({7}, join, play.now));
  for (const int agent : {0, 3}) play.say(agent, Stopped{{1}, {}});
  play.store_ready(2);
  CHECK(started(play) == Ranks{{0, {0, 1}}, {7, {2, 3}}, {3, {4, 5}}});
}

TEST_CASE("a node that comes late waits for a restart or is refused, as --grow says") {
  const options::Grow grow = GENERATE(options::Grow::at_restart, options::Grow::never);
  CoordinatorSettings chosen = elastic(1, 2, grow);
  chosen.max_restarts = 1;
  Play play(std::move(chosen));
  Join first = join_of(0, 2), late = join_of(1, 2);
  for (Join* join : {&first, &late}) join->announcement.max_restarts = 1;
  play.say(0, first);
  play.pass(30s);
  play.store_ready(0);
  play.log.clear();
  play.say(1, late);
  CHECK(told_to_stop(play).empty());
  REQUIRE(play.sent<Refused>().size() == (grow == options::Grow::never ? 1 : 0));
  if (grow == options::Grow::never) {
    CHECK(play.sent<Refused>()[0].second.reason ==
          "the job on n1 has already started and accepts no more nodes (--grow never); n2 cannot join it");
  }
  play.say(0, AttemptFailed{{0}, failure_of(0)});
  play.say(0, Stopped{{0}, {}});
  REQUIRE(play.all<ShowRestart>().size() == 1);
  CHECK(play.all<ShowRestart>()[0].restarts == 1);
  play.store_ready(1);
  CHECK(started(play).size() == (grow == options::Grow::never ? 1 : 2));
}

TEST_CASE("a late node that does not fit the others, or cannot start anything, is told alone") {
  Play play(elastic(1, 3));
  play.say(0, join_of(0, 3));
  play.say(1, join_of(1, 3));
  play.pass(30s);
  play.store_ready(0);
  play.log.clear();
  Join join = join_of(2, 3);
  join.announcement.max_restarts = 3;
  play.say(2, join);
  REQUIRE(play.sent<Refused>().size() == 1);
  CHECK(play.sent<Refused>()[0].second.reason == "n1 allows 0 restarts and n3 allows 3");
  join = join_of(2, 3);
  join.failure = LaunchFailure{"cannot start train.py", ": no such file", true, "look", 127};
  play.say(8, join);
  CHECK(play.sent<Finish>().size() == 1);
  play.say(9, join_of(1, 3));  // that place is taken
  CHECK(play.sent<Refused>().size() == 2);
  CHECK(told_to_stop(play).empty());
}

TEST_CASE("losses and joins before the start change who starts") {
  Play play(elastic(1, 3));
  play.say(0, join_of(0, 3));
  play.say(1, join_of(1, 3));
  play.pass(30s);
  play.say(2, join_of(2, 3));  // while the store is being opened
  play.store_ready(0);
  CHECK(play.sent<Start>().empty());
  play.lose(1, "no answer");
  play.store_ready(1);
  CHECK(play.sent<Start>().empty());
  play.store_ready(2);
  CHECK(started(play) == Ranks{{0, {0, 1}}, {2, {2, 3}}});
}

TEST_CASE("an agent that is lost while addresses are looked for is done without") {
  Play play(elastic(2, 3));
  play.say(0, join_of(0, 3));
  play.say(1, join_of(1, 3, "10.1.0.1"));
  play.say(2, join_of(2, 3, "10.0.0.1"));
  REQUIRE(play.sent<Probe>().size() == 2);
  play.lose(1, "no answer");
  play.store_ready(0);
  CHECK(started(play) == Ranks{{0, {0, 1}}, {2, {2, 3}}});
}

TEST_CASE("one that has not stopped its workers in time is not gone, and ends the job") {
  Play play(elastic(1, 3));
  play.run();
  play.lose(2, "no answer");
  play.say(0, Stopped{{0}, {}});
  play.pass(40s);
  CHECK(play.end().kind == report::Cause::Kind::agent_lost);
  CHECK(play.end_text() == "n2 (ranks 2-3) did not stop its workers within 40 s");
}

TEST_CASE(
    "the coordinator's own workers that SIGKILL does not end, and any where all nodes are needed, end the "
    "job") {
  for (CoordinatorSettings chosen : {elastic(1, 2), settings(2)}) {
    const int stuck = chosen.elastic ? 0 : 1;
    chosen.max_restarts = 1;
    Play play(std::move(chosen));
    play.run();
    play.say(1 - stuck, AttemptFailed{{0}, failure_of(2 - 2 * stuck)});
    play.say(1 - stuck, Stopped{{0}, {}});
    play.say(stuck, Stuck{{0}});
    CHECK(play.end().kind == report::Cause::Kind::agent_lost);
    CHECK(play.end_text().starts_with("SIGKILL has not ended the workers of n"));
  }
}

TEST_CASE("an agent whose workers have succeeded may go") {
  Play play(elastic(1, 2));
  play.run();
  play.say(1, AttemptSucceeded{{0}});
  play.lose(1, "the connection was closed");
  CHECK(told_to_stop(play).empty());
  play.say(0, AttemptSucceeded{{0}});
  CHECK(play.end().kind == report::Cause::Kind::success);
}

TEST_CASE("a signal ends the job also while it is being started again") {
  Play play(elastic(1, 2));
  play.run();
  play.lose(1, "no answer");
  play.say(0, StopRequest{15, "n1", false});
  play.say(0, Stopped{{0}, {}});
  CHECK(play.end().kind == report::Cause::Kind::stopped_by_signal);
}

TEST_CASE("with an agent a task the least counts hosts, and ranks and local ranks close up") {
  CoordinatorSettings chosen = elastic(2, 4);
  chosen.peers.assign(4, "");
  Play play(std::move(chosen));
  for (int agent = 0; agent < 4; ++agent) {  // two tasks on each of two hosts
    Join join = join_of(agent, 4);
    join.announcement.host = agent < 2 ? "n1" : "n2";
    join.announcement.node = NodeIndex{agent / 2};
    join.announcement.workers = 1;
    join.announcement.fixed_rank = GlobalRank{agent};
    join.announcement.first_local_rank = LocalRank{agent % 2};
    play.say(agent, join);
  }
  play.store_ready(0);
  play.log.clear();
  play.lose(2, "no answer");
  play.all_stopped(0);
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, {0}}, {1, {1}}, {3, {2}}});
  const plan::Assignment last = play.sent<Start>()[2].second.assignment;
  CHECK(last.workers[0].local_rank == LocalRank{0});
  CHECK(last.local_world_size == 1);
  play.lose(3, "no answer");
  play.all_stopped(1);
  CHECK(play.end().kind == report::Cause::Kind::agent_lost);
}

namespace {

// A failed attempt whose restart waits for 5 s.
CoordinatorSettings waiting_to_restart(int least, int most) {
  CoordinatorSettings chosen = elastic(least, most);
  chosen.max_restarts = 3;
  chosen.restarts.backoff = sourced(Milliseconds(5s), "--restart-backoff");
  return chosen;
}

void fail_rank_2(Play& play) {
  play.say(1, AttemptFailed{{0}, failure_of(2)});
  play.all_stopped(0);
}

}  // namespace

TEST_CASE("a host that is lost while a restart waits is done without, and changes no time") {
  Play play(waiting_to_restart(2, 3));
  play.run();
  fail_rank_2(play);
  play.pass(2s);
  play.lose(2, "gone");
  CHECK(noticed(play) == "lost n3 (ranks 4-5): gone; the workers start again without it\n");
  CHECK(play.all<OpenStore>().empty());
  play.pass(3s);
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, {0, 1}}, {1, {2, 3}}});
}

TEST_CASE("a host that comes while a restart waits takes part in it") {
  Play play(waiting_to_restart(1, 3));
  play.say(0, join_of(0, 3));
  play.say(1, join_of(1, 3));
  play.pass(30s);
  play.store_ready(0);
  play.log.clear();
  play.say(1, AttemptFailed{{0}, failure_of(2)});
  for (const int agent : {0, 1}) play.say(agent, Stopped{{0}, {}});
  play.say(2, join_of(2, 3));
  CHECK(play.all<OpenStore>().empty());
  play.pass(5s);
  play.store_ready(1);
  CHECK(started(play) == Ranks{{0, {0, 1}}, {1, {2, 3}}, {2, {4, 5}}});
}

TEST_CASE("a signal that came beside a failure that ends the job is not forgotten for a lost host") {
  CoordinatorSettings chosen = elastic(1, 3);
  chosen.max_restarts = 3;
  chosen.restarts.no_restart_on = sourced(std::vector<int>{1}, "--no-restart-on");
  Play play(std::move(chosen));
  play.run();
  play.say(1, AttemptFailed{{0}, failure_of(2)});
  play.say(0, StopRequest{15, "n1"});
  play.lose(2, "gone");
  play.all_stopped(0);
  CHECK(play.end().kind != report::Cause::Kind::success);
  CHECK(play.all<OpenStore>().empty());
}

TEST_CASE("a failure beside which too few are left is not answered with a restart") {
  CoordinatorSettings chosen = elastic(3, 3);
  chosen.max_restarts = 3;
  Play play(std::move(chosen));
  play.run();
  play.say(1, AttemptFailed{{0}, failure_of(2)});
  play.lose(2, "gone");
  play.all_stopped(0);
  CHECK(play.end().kind == report::Cause::Kind::worker_failed);
  CHECK(play.end_text() == "2 nodes left, and --nnodes asks for 3 at least");
}

namespace {

// Agents that answer as ddprun's do, in any order and with any losses, and what must hold whatever happens.
struct RandomLife {
  RandomLife(unsigned seed, int least, int most, int spares)
      : random(seed),
        play(with_spares(elastic(least, most), spares)),
        most_agents(most),
        slots(most - spares) {}

  static CoordinatorSettings with_spares(CoordinatorSettings chosen, int spares) {
    chosen.elastic->spares = spares;
    return chosen;
  }

  struct Member {
    bool joined = false;
    std::optional<int> running;   // the attempt its workers are of
    std::optional<int> stopping;  // was told to stop it and has not answered
  };

  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random); }

  void see() {
    for (const CoordinatorAction& action : std::exchange(play.log, {})) {
      if (const auto* send = std::get_if<SendTo>(&action)) receive(send->connection.value, send->message);
      if (const auto* open = std::get_if<OpenStore>(&action)) opening = open->attempt.value;
      if (std::holds_alternative<EndJob>(action)) ended = true;
      if (const auto* close = std::get_if<CloseConnection>(&action)) members.erase(close->connection.value);
    }
  }

  void receive(int connection, const CoordinatorMessage& message) {
    Member& member = members[connection];
    if (const auto* start = std::get_if<Start>(&message)) {
      for (const auto& [other, each] : members) {  // no worker of an older attempt runs anywhere
        if (each.running && *each.running != start->assignment.attempt.value) overlaps = true;
      }
      if (member.running) overlaps = true;
      member.running = start->assignment.attempt.value;
      for (const plan::RankAssignment& each : start->assignment.workers)
        doubled |= !ranks[start->assignment.attempt.value].insert(each.rank.value).second;
      sizes[start->assignment.attempt.value] = start->assignment.world_size;
      node_ranks[start->assignment.attempt.value][connection] = start->assignment.node.value;
    } else if (const auto* stop = std::get_if<Stop>(&message)) {
      stopped_twice |= member.stopping.has_value();
      member.stopping = stop->attempt.value;
    }
  }

  void join(int agent) {
    const int connection = agent == 0 ? 0 : ++last_connection;
    members[connection].joined = true;
    places[connection] = agent;
    play.take(play.coordinator.on_message({connection}, join_of(agent, most_agents), play.now));
  }

  void lose(int connection) {
    members.erase(connection);  // its workers die with it
    play.take(play.coordinator.on_closed({connection}, "it is gone", play.now));
  }

  std::vector<int> connected() const {
    std::vector<int> found;
    for (const auto& [connection, member] : members) found.push_back(connection);
    return found;
  }

  void step() {
    const std::vector<int> all = connected();
    const int connection =
        all.empty() ? 0 : all[static_cast<std::size_t>(pick(static_cast<int>(all.size())))];
    switch (pick(12)) {
      case 0:
        return try_join();
      case 1:
        if (connection != 0 && !all.empty() && pick(3) == 0) lose(connection);
        return;
      case 2:
        play.pass(std::chrono::seconds(pick(20)));
        return;
      case 3:
        if (opening) play.store_ready(*opening);
        return;
      case 4:
        return end_workers(connection);
      default:
        return answer(connection);
    }
  }

  void try_join() {
    const int agent = pick(most_agents);
    for (const auto& [connection, member] : members) {
      if (places[connection] == agent) return;
    }
    join(agent);
  }

  void answer(int connection) {
    const auto found = members.find(connection);
    if (found == members.end() || !found->second.stopping) return;
    const int attempt = *std::exchange(found->second.stopping, std::nullopt);
    found->second.running.reset();
    play.take(play.coordinator.on_message({connection}, Stopped{{attempt}, {}}, play.now));
  }

  void end_workers(int connection) {
    const auto found = members.find(connection);
    if (found == members.end() || !found->second.running || found->second.stopping || pick(4) != 0) return;
    const int attempt = *std::exchange(found->second.running, std::nullopt);
    play.take(play.coordinator.on_message({connection}, AttemptSucceeded{{attempt}}, play.now));
  }

  // Nothing goes wrong any more: it has to come to an end, or to run.
  void settle() {
    for (int round = 0; round < 200 && !ended; ++round) {
      for (const int connection : connected()) answer(connection);
      if (opening) play.store_ready(*opening);
      play.pass(10s);
      see();
    }
  }

  // With spares whoever takes part in two full attempts running has the same ranks in both.
  bool ranks_stay() const {
    for (const auto& [attempt, nodes] : node_ranks) {
      const auto next = node_ranks.find(attempt + 1);
      const auto full = static_cast<std::size_t>(slots);
      if (slots == most_agents || next == node_ranks.end()) continue;
      if (nodes.size() != full || next->second.size() != full) continue;
      for (const auto& [connection, rank] : nodes) {
        const auto again = next->second.find(connection);
        if (again != next->second.end() && again->second != rank) return false;
      }
    }
    return true;
  }

  bool runs() const {
    return std::any_of(members.begin(), members.end(), [](const auto& each) { return each.second.running; });
  }

  std::mt19937 random;
  Play play;
  int most_agents, slots;
  std::map<int, std::map<int, int>> node_ranks;  // by attempt and connection
  int last_connection = 100;
  std::map<int, Member> members;
  std::map<int, int> places;
  std::optional<int> opening;
  std::map<int, std::set<int>> ranks;
  std::map<int, int> sizes;
  bool ended = false, overlaps = false, doubled = false, stopped_twice = false;
};

}  // namespace

TEST_CASE("whatever agents are lost and come, no two attempts overlap and none waits for ever") {
  RANDOM_SEED(seed);
  int attempts = 0, ends = 0;
  for (int round = 0; round < rounds(600); ++round) {
    CAPTURE(round);
    const int most = 3 + round % 4, spares = round / 12 % 3 % (most - 1),
              least = 1 + round % 3 % (most - spares);
    RandomLife life(seed + static_cast<unsigned>(round), least, most, spares);
    life.join(0);
    for (int step = 0; step < 120 && !life.ended; ++step) {
      life.step();
      life.see();
    }
    life.settle();
    bool whole = true;
    for (const auto& [attempt, ranks] : life.ranks)
      whole &=
          static_cast<int>(ranks.size()) == life.sizes[attempt] && *ranks.rbegin() + 1 == life.sizes[attempt];
    const bool good = !life.overlaps && !life.doubled && !life.stopped_twice && whole && life.ranks_stay() &&
                      (life.ended || life.runs());
    if (!good) {
      CAPTURE(life.overlaps, life.doubled, life.stopped_twice, whole, life.ranks_stay(), life.ended,
              life.runs());
      FAIL("a launch broke a rule");
    }
    attempts += static_cast<int>(life.ranks.size());
    ends += life.ended ? 1 : 0;
  }
  CHECK(attempts > 500);
  CHECK(ends > 50);
}
