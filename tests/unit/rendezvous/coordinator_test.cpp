#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/expected_messages.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "catch.hpp"
#include "coordinator_play.hpp"
#include "random_seed.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::test::coordinator;
using namespace std::chrono_literals;

TEST_CASE("the store is told the size of the world and whose addresses its clients have") {
  Play play(settings(2));
  for (int agent = 0; agent < 2; ++agent) {
    Join join = join_of(agent, 2);
    join.announcement.addresses = {"10.0.0." + std::to_string(agent + 1)};
    play.say(agent, join);
  }
  REQUIRE(play.all<OpenStore>().size() == 1);
  CHECK(play.all<OpenStore>()[0].world_size == 4);
  CHECK(play.all<OpenStore>()[0].clients == std::vector<std::string>{"10.0.0.1", "10.0.0.2"});
}

TEST_CASE("a worker that hosts the store elsewhere does it on the ports its agent has kept") {
  Play play(settings(2));
  for (int agent = 0; agent < 2; ++agent) {
    Join join = join_of(agent, 2);
    join.announcement.workers = 1;
    join.announcement.fixed_rank = GlobalRank{1 - agent};
    join.announcement.addresses = {"10.0.0." + std::to_string(agent + 1)};
    if (agent == 1) join.announcement.store_ports = {42000, 42001};
    play.say(agent, join);
  }
  CHECK(play.all<OpenStore>().empty());
  auto starts = play.sent<Start>();
  REQUIRE(starts.size() == 2);
  CHECK(starts[0].second.assignment.master_address == "10.0.0.2");
  CHECK(starts[0].second.assignment.master_port == 42000);
}

TEST_CASE("the address that the user named is proven before it is taken, and a name is left to the workers") {
  CoordinatorSettings chosen = settings(2);
  chosen.named_address = GENERATE("10.1.0.1", "10.0.0.1", "head.cluster");
  const std::string named = chosen.named_address;
  Play play(std::move(chosen));
  play.all_join();  // all reach 10.0.0.1
  if (named == "10.1.0.1") {
    REQUIRE(play.sent<Probe>().size() == 1);
    CHECK(play.sent<Probe>()[0].second.addresses == std::vector<std::string>{named});
    CHECK(play.all<OpenStore>().empty());
    play.say(1, Probed{{named}});
  }
  REQUIRE(play.all<OpenStore>().size() == 1);
  CHECK(play.all<OpenStore>()[0].address == named);
}

TEST_CASE("when all have joined the store is opened and then all start, each with its ranks") {
  Play play(settings(3));
  play.all_join();
  REQUIRE(play.all<OpenStore>().size() == 1);
  CHECK(play.all<OpenStore>()[0].address == "10.0.0.1");
  CHECK(play.sent<Start>().empty());
  play.store_ready(0, 41000);
  const auto starts = play.sent<Start>();
  REQUIRE(starts.size() == 3);
  const plan::Assignment& last = starts[2].second.assignment;
  CHECK(starts[2].first == 2);
  CHECK(last.world_size == 6);
  CHECK(last.master_address == "10.0.0.1");
  CHECK(last.master_port == 41000);
  CHECK(last.workers[1].rank == GlobalRank{5});
  CHECK_FALSE(play.coordinator.deadline());  // idle while training
}

namespace {

Join unnumbered(int speaker, int agents) {
  Join join = join_of(speaker, agents);
  join.announcement.agent.reset();
  join.announcement.node.reset();
  return join;
}

CoordinatorSettings manual(int agents) {
  CoordinatorSettings chosen = settings(agents, 1);
  chosen.peers.assign(static_cast<std::size_t>(agents), "");
  return chosen;
}

Join failed(int agent, int agents, const std::string& what, const std::string& rest) {
  Join join = join_of(agent, agents);
  join.failure = LaunchFailure{what, rest, !rest.empty(), "look", 127};
  return join;
}

}  // namespace

TEST_CASE("agents without a number get the next free place as they come and keep it over a restart") {
  Play play(manual(3));
  for (const int speaker : {0, 2, 1}) {
    Join join = speaker == 0 ? join_of(0, 3) : unnumbered(speaker, 3);
    join.announcement.max_restarts = 1;
    play.say(speaker, join);
  }
  play.store_ready(0);
  const auto check_places = [&play] {
    std::map<int, int> nodes;
    for (const auto& [speaker, start] : play.sent<Start>()) nodes[speaker] = start.assignment.node.value;
    CHECK(nodes == std::map<int, int>{{0, 0}, {2, 1}, {1, 2}});
  };
  check_places();
  play.log.clear();
  play.say(1, AttemptFailed{{0}, failure_of(5)});
  play.all_stopped(0);
  play.store_ready(1);
  check_places();
}

TEST_CASE("an agent that left before the start frees its place, and one too many is refused") {
  Play play(manual(2));
  play.say(0, join_of(0, 2));
  play.say(1, unnumbered(1, 2));
  CHECK(play.all<OpenStore>().size() == 1);
  play.say(2, unnumbered(2, 2));
  REQUIRE(play.sent<Refused>().size() == 1);
  CHECK(play.sent<Refused>()[0].second.reason == "the job already has all its 2 nodes; n3 cannot join");
  Play other(manual(3));
  other.say(0, join_of(0, 3));
  other.say(1, unnumbered(1, 3));
  other.lose(1, "gone");
  other.say(2, unnumbered(2, 3));
  other.say(3, unnumbered(3, 3));
  CHECK(other.all<OpenStore>().size() == 1);
}

TEST_CASE("an agent with a number of its own moves one that came without") {
  Play play(manual(3));
  play.say(0, join_of(0, 3));
  play.say(2, unnumbered(2, 3));
  play.say(1, join_of(1, 3));
  play.store_ready(0);
  std::map<int, int> nodes;
  for (const auto& [speaker, start] : play.sent<Start>()) nodes[speaker] = start.assignment.node.value;
  CHECK(nodes == std::map<int, int>{{0, 0}, {1, 1}, {2, 2}});
}

TEST_CASE("two agents of one host meet at a loopback address and get one that workers elsewhere could use") {
  Play play(manual(2));
  play.say(0, join_of(0, 2));
  Join second = unnumbered(1, 2);
  second.announcement.host = "n1";
  second.reached = "127.0.0.1";
  play.say(1, second);
  CHECK(play.sent<Probe>().empty());
  REQUIRE(play.all<OpenStore>().size() == 1);
  CHECK(play.all<OpenStore>()[0].address == "10.0.0.1");
}

TEST_CASE("a host that cannot start ends the launch as soon as all are there, and one message names it") {
  Play play(settings(4));
  for (const int agent : {0, 1, 3}) play.say(agent, join_of(agent, 4));
  play.say(2, failed(2, 4, "cannot start train.py", ": no such file"));
  CHECK(play.end_text() == "cannot start train.py on n3: no such file (the same path exists on n[1-2,4])");
  CHECK(report::exit_code_of(play.end()) == 127);
  CHECK(play.end().hint == "n3: look");
  const auto finishes = play.sent<Finish>();
  REQUIRE(finishes.size() == 4);
  for (const auto& [agent, finish] : finishes) CHECK(finish.report_here == (agent == 0));
}

TEST_CASE("after a failed start the others have half a second to join") {
  Play play(settings(4));
  play.say(0, failed(0, 4, "cannot start train.py", ": no such file"));
  play.pass(499ms);
  CHECK(play.all<EndJob>().empty());
  play.say(1, failed(1, 4, "cannot start train.py", ": no such file"));
  play.pass(1ms);
  CHECK(play.end_text() == "cannot start train.py on n[1-2]: no such file");
  CHECK(play.coordinator.expects_latecomers());
  const report::Cause end = play.end();
  play.say(2, join_of(2, 4));
  CHECK(play.sent<Finish>().back().second.cause == end);
}

TEST_CASE("who cannot start says so even where it would be refused") {
  Play play(settings(2));
  play.say(0, join_of(0, 2));
  Join odd = failed(1, 3, "--nnodes 3 is not 2", "");
  play.say(1, odd);
  CHECK(play.end_text() == "--nnodes 3 is not 2");
}

TEST_CASE("one agent needs nobody else") {
  Play play(settings(1));
  play.all_join();
  play.store_ready(0);
  CHECK(play.sent<Start>().size() == 1);
  play.say(0, AttemptSucceeded{{0}});
  CHECK(play.end().kind == report::Cause::Kind::success);
}

TEST_CASE("success of all is the end; the coordinator's own agent reports") {
  Play play(settings(3));
  play.run();
  play.say(1, AttemptSucceeded{{0}});
  play.say(0, AttemptSucceeded{{0}});
  CHECK(play.log.empty());
  play.say(2, AttemptSucceeded{{0}});
  const auto finishes = play.sent<Finish>();
  REQUIRE(finishes.size() == 3);
  for (const auto& [agent, finish] : finishes) CHECK(finish.report_here == (agent == 0));
  CHECK(play.all<CloseStore>().size() == 1);
  CHECK(play.end().kind == report::Cause::Kind::success);
}

TEST_CASE("in a log the status names who is missing after a second, then every half minute what is new") {
  Play play(settings(4));
  play.say(0, join_of(0, 4));
  CHECK(play.all<ShowStatus>().empty());
  play.pass(1s);
  REQUIRE(play.all<ShowStatus>().size() == 1);
  CHECK(play.all<ShowStatus>()[0].text == "waiting for 3 of 4 nodes: n[2-4]");
  play.pass(100ms);
  play.say(2, join_of(2, 4));
  play.pass(29s);
  CHECK(play.all<ShowStatus>().size() == 1);
  play.pass(1s);
  REQUIRE(play.all<ShowStatus>().size() == 2);
  CHECK(play.all<ShowStatus>()[1].text == "waiting for 2 of 4 nodes: n[2,4]");
  play.pass(25s);
  CHECK(play.all<ShowStatus>().size() == 2);  // nothing new
  play.say(1, join_of(1, 4));
  play.say(3, join_of(3, 4));
  CHECK(play.all<ShowStatus>().back().text.empty());
}

namespace {

CoordinatorSettings at_a_terminal(int agents) {
  CoordinatorSettings chosen = settings(agents);
  chosen.live = chosen.connects = true;
  return chosen;
}

}  // namespace

TEST_CASE("at a terminal the status says every second who is missing and since when") {
  Play play(at_a_terminal(3));
  play.say(0, join_of(0, 3));
  play.pass(1s);
  play.pass(1s);
  REQUIRE(play.all<ShowStatus>().size() == 2);
  CHECK(play.all<ShowStatus>()[1].text == "waiting for 2 of 3 nodes: n[2-3], for 2 s");
}

TEST_CASE("at a terminal a slow start is shown until all workers are connected, and a quick one is not") {
  Play play(at_a_terminal(3));
  play.run();
  const int workers = 3 * join_of(0, 3).announcement.workers;
  const auto connect = [&](int count) { play.take(play.coordinator.on_connections(count, play.now)); };
  play.pass(9s);
  CHECK(play.all<ShowStatus>().empty());
  connect(workers - 2);
  play.pass(2s);
  REQUIRE_FALSE(play.all<ShowStatus>().empty());
  CHECK(play.all<ShowStatus>().back().text ==
        "2 of " + std::to_string(workers) +
            " workers have not connected to the store yet, 11 s after the "
            "start");
  connect(workers - 5);  // some have closed theirs
  play.pass(1s);
  CHECK(play.all<ShowStatus>().back().text.starts_with("2 of "));
  connect(workers);
  CHECK(play.all<ShowStatus>().back().text.empty());
  CHECK_FALSE(play.coordinator.deadline());
  play.log.clear();
  connect(0);
  play.pass(60s);
  CHECK(play.all<ShowStatus>().empty());
}

TEST_CASE("while nobody waits at a terminal, or nobody connects, no timer runs") {
  for (const bool live : {false, true}) {
    CoordinatorSettings chosen = at_a_terminal(3);
    chosen.live = live;
    chosen.connects = !live;
    Play play(chosen);
    play.run();
    CHECK_FALSE(play.coordinator.deadline());
  }
}

TEST_CASE("workers that take long to stop are waited for by name") {
  Play play(at_a_terminal(3));
  play.run();
  play.say(1, StopRequest{2, "n2"});
  play.say(0, Stopped{{0}, {}});
  play.pass(2s);
  CHECK(play.all<ShowStatus>().empty());
  play.pass(2s);
  REQUIRE_FALSE(play.all<ShowStatus>().empty());
  CHECK(play.all<ShowStatus>().back().text ==
        "waiting for the workers of 2 of 3 nodes: n[2-3] to stop, for 4 s; those left after 30 s are killed");
  play.say(1, Stopped{{0}, {}});
  play.say(2, Stopped{{0}, {}});
  CHECK(play.all<ShowStatus>().back().text.empty());
  CHECK(std::holds_alternative<EndJob>(play.log.back()));
}

TEST_CASE("a fast start is silent") {
  Play play(settings(4));
  play.all_join();
  play.pass(10s);
  CHECK(play.all<ShowStatus>().empty());
}

TEST_CASE("a refused stranger shows in the status: it may be the missing node with a wrong key") {
  Play play(settings(2));
  play.say(0, join_of(0, 2));
  play.pass(1s);
  play.take(play.coordinator.on_refused("10.0.0.2", "the keys differ", play.now));
  play.pass(30s);
  CHECK(play.all<ShowStatus>().back().text ==
        "waiting for 1 of 2 nodes: n2; refused 10.0.0.2: the keys differ");
}

TEST_CASE("the join deadline names the missing and what was seen of them") {
  Play play(settings(4));
  play.say(0, join_of(0, 4));
  play.say(1, join_of(1, 4));
  play.lose(1, "connection reset by peer");
  play.take(play.coordinator.on_refused("10.0.0.3", "it sent nothing for 10 s", play.now));
  play.say(3, join_of(3, 4));
  play.pass(60s);
  CHECK(play.end().kind == report::Cause::Kind::deadline);
  CHECK(play.end_text() ==
        "gave up after 60 s waiting for 2 of 4 nodes: n[2-3]; lost n2: connection reset by peer; refused "
        "10.0.0.3: it sent nothing for 10 s");
  CHECK(play.sent<Finish>().size() == 2);
}

TEST_CASE("an agent that was lost while waiting may come back") {
  Play play(settings(2));
  play.say(0, join_of(0, 2));
  play.say(1, join_of(1, 2));
  Play again(settings(3));
  again.say(0, join_of(0, 3));
  again.say(1, join_of(1, 3));
  again.lose(1, "connection reset by peer");
  again.say(7, join_of(1, 3));
  again.say(2, join_of(2, 3));
  again.store_ready(0);
  CHECK(again.sent<Start>()[1].first == 7);
}

TEST_CASE("agents that disagree about the launch end it, with both sides named") {
  const auto text_for = [](const std::function<void(Join&)>& change) {
    Play play(settings(2));
    play.say(0, join_of(0, 2));
    Join join = join_of(1, 2);
    change(join);
    play.say(1, join);
    CHECK(play.sent<Finish>().size() == 2);
    CHECK(play.end().kind == report::Cause::Kind::launcher_failed);
    return play.end_text();
  };
  CHECK(text_for([](Join& join) { join.version = "0.2.0"; }) ==
        "n2 runs ddprun 0.2.0 and n1 runs ddprun 0.1.0; install the same version on all nodes");
  CHECK(
      text_for([](Join& join) { join.agents = 4; }) ==
      "n2 counts 4 ddprun processes in this job and n1 counts 2; start all of them in one step, or with the "
      "same --nnodes");
  CHECK(text_for([](Join& join) { join.announcement.agent = {2}; }) ==
        "n2 announced itself as number 2 of 2; give each node its own --node-rank below 2");
  CHECK(text_for([](Join& join) { join.announcement.host = "n9"; }) ==
        "n9 joined as number 1, which is n2 in the host list that n1 has; check that all nodes see the same "
        "list");
  CHECK(text_for([](Join& join) { join.announcement.max_restarts = 3; }) ==
        "n1 allows 0 restarts and n2 allows 3; give all nodes the same --max-restarts");
}

TEST_CASE("a second process for a place that is taken is refused alone") {
  Play play(settings(2));
  play.say(0, join_of(0, 2));
  Join again = join_of(0, 2);
  play.say(5, again);
  REQUIRE(play.sent<Refused>().size() == 1);
  CHECK(play.sent<Refused>()[0].first == 5);
  CHECK(play.sent<Refused>()[0].second.reason ==
        "another ddprun has already joined in the place of n1 (number 0)");
  CHECK(play.sent<Refused>()[0].second.hint == "start each ddprun of the job only once");
  CHECK(play.all<CloseConnection>().size() == 1);
  play.lose(5, "closed");  // of no importance
  play.say(1, join_of(1, 2));
  CHECK(play.all<OpenStore>().size() == 1);
  play.store_ready(0);
  play.say(6, join_of(1, 2));  // too late, likewise
  CHECK(play.sent<Refused>().size() == 2);
}

TEST_CASE("whoever comes when the job has started is refused, whatever it says, and the job goes on") {
  Play play(settings(2));
  play.run();
  Join stray = join_of(1, 3);
  stray.announcement.host = "n9";
  play.say(7, stray);
  stray.version = "0.0.9";
  play.say(8, stray);
  stray = join_of(1, 2);
  stray.announcement.agent = {-1};
  play.say(9, stray);
  const auto refused = play.sent<Refused>();
  REQUIRE(refused.size() == 3);
  CHECK(refused[0].first == 7);
  CHECK(refused[0].second.reason ==
        "the job on n1 has already started with 2 ddprun processes; n9 cannot join it as number 1 of 3");
  CHECK(refused[0].second.hint == "use a separate --rdzv-id or --master-port for each job");
  CHECK(play.all<CloseConnection>().size() == 3);
  CHECK(play.sent<Stop>().empty());
  play.lose(7, "closed");
  play.say(0, AttemptSucceeded{{0}});
  play.say(1, AttemptSucceeded{{0}});
  CHECK(play.end().kind == report::Cause::Kind::success);
}

TEST_CASE("a launch that cannot start says so to whoever joins, and by hand for them to print") {
  for (const bool manual : {false, true}) {
    CoordinatorSettings over = settings(2);
    over.cannot_start = "cannot listen";
    if (manual) over.peers.assign(2, {});
    Play play(over);
    play.say(0, join_of(0, 2));
    CHECK(play.end_text() == "cannot listen");
    CHECK(play.coordinator.expects_latecomers());
    play.say(1, join_of(1, 2));
    const auto ends = play.sent<Finish>();
    REQUIRE(ends.size() == 2);
    CHECK_FALSE(ends[0].second.report_here);
    CHECK(ends[1].second.report_here == manual);
    CHECK(ends[1].second.cause.detail == "cannot listen");
    CHECK_FALSE(play.coordinator.expects_latecomers());
  }
}

TEST_CASE("a coordinator that stays alone says why that may be, once") {
  CoordinatorSettings alone = settings(2);
  alone.when_alone = allocation::Notice{"no other node has joined", "start it there too"};
  Play play(alone);
  play.say(0, join_of(0, 2));
  play.pass(4s);
  CHECK(play.all<ShowNotice>().empty());
  play.pass(1s);
  REQUIRE(play.all<ShowNotice>().size() == 1);
  CHECK(play.all<ShowNotice>()[0].notice == *alone.when_alone);
  play.pass(20s);
  CHECK(play.all<ShowNotice>().size() == 1);

  alone.agents = 3;
  alone.peers.emplace_back("n3");
  Play joined(alone);
  joined.say(0, join_of(0, 3));
  joined.say(1, join_of(1, 3));
  joined.pass(20s);
  CHECK(joined.all<ShowNotice>().empty());
}

TEST_CASE("agents that came by different addresses are asked, and the best common one is taken") {
  Play play(settings(3));
  play.say(0, join_of(0, 3));
  play.say(1, join_of(1, 3, "10.0.0.1"));
  play.say(2, join_of(2, 3, "10.1.0.1"));
  const auto probes = play.sent<Probe>();
  REQUIRE(probes.size() == 2);  // not agent 0
  CHECK(probes[0].second == Probe{{"10.0.0.1", "10.1.0.1"}, 20480});
  play.say(1, Probed{{"10.1.0.1"}});
  CHECK(play.all<OpenStore>().empty());
  play.say(2, Probed{{}});
  REQUIRE(play.all<OpenStore>().size() == 1);
  CHECK(play.all<OpenStore>()[0].address == "10.1.0.1");
}

TEST_CASE("an address that was not reached in time is asked about again") {
  Play play(settings(3));
  play.say(0, join_of(0, 3));
  play.say(1, join_of(1, 3, "10.0.0.1"));
  play.say(2, join_of(2, 3, "10.1.0.1"));
  play.say(1, Probed{{"10.0.0.1"}});
  play.log.clear();
  play.say(2, Probed{{}});
  CHECK(play.all<EndJob>().empty());
  const auto probes = play.sent<Probe>();
  REQUIRE(probes.size() == 2);
  CHECK(probes[0].second.addresses == std::vector<std::string>{"10.1.0.1"});
  CHECK(probes[1].second.addresses == std::vector<std::string>{"10.0.0.1", "10.1.0.1"});
  play.say(2, Probed{{"10.0.0.1"}});
  play.pass(30s);  // n2 never answers this time
  REQUIRE(play.all<OpenStore>().size() == 1);
  CHECK(play.all<OpenStore>()[0].address == "10.0.0.1");
}

TEST_CASE("without a common address the end says who reached what") {
  Play play(settings(3));
  play.say(0, join_of(0, 3));
  play.say(1, join_of(1, 3, "10.0.0.1"));
  play.say(2, join_of(2, 3, "10.1.0.1"));
  play.say(1, Probed{{}});
  for (int round = 0; round < 3; ++round) play.pass(30s);  // n3 never answers
  CHECK(play.end().kind == report::Cause::Kind::launcher_failed);
  CHECK(
      play.end_text() ==
      "no address of n1 is reached by all nodes (tried 10.0.0.1, 10.1.0.1): n2 reached 10.0.0.1; n3 reached "
      "10.1.0.1; name one that all reach with --master-addr");
}

TEST_CASE("a loopback address is never announced to another host") {
  CoordinatorSettings only_loopback = settings(2);
  only_loopback.addresses = {"127.0.0.1"};
  Play play(only_loopback);
  play.say(0, join_of(0, 2));
  play.say(1, join_of(1, 2, "127.0.1.1"));
  CHECK(play.end_text() ==
        "n1 has no address that other hosts can use, only loopback ones; name one that all reach with "
        "--master-addr");
}

TEST_CASE("a store that does not open is the end") {
  Play play(settings(2));
  play.all_join();
  play.take(play.coordinator.on_store_failed({0}, "too many open files", play.now));
  CHECK(play.end_text() == "cannot open the store on n1: too many open files");
  CHECK(play.sent<Start>().empty());
}

TEST_CASE("a failure stops all, and all are told the same cause") {
  Play play(settings(3));
  play.run();
  play.say(1, AttemptFailed{{0}, failure_of(3)});
  CHECK(play.sent<Stop>().size() == 3);
  CHECK(play.sent<Finish>().empty());
  play.say(0, Stopped{{0}, {}});
  report::Failure other = failure_of(4);
  other.status.value = 2;
  play.say(2, Stopped{{0}, {other}});
  play.say(1, Stopped{{0}, {}});
  CHECK(play.end().kind == report::Cause::Kind::worker_failed);
  CHECK(play.end().failure == failure_of(3));
  for (const auto& [agent, finish] : play.sent<Finish>()) {
    CHECK(finish.cause == play.end());
    CHECK(finish.others ==
          (agent == 0 ? std::vector<report::Failure>{other} : std::vector<report::Failure>{}));
  }
}

TEST_CASE("of failures in one wake-up the lowest rank is the first, in either order; a later one is not") {
  for (const bool low_first : {true, false}) {
    Play play(settings(3));
    play.run();
    play.say(low_first ? 0 : 2, AttemptFailed{{0}, failure_of(low_first ? 1 : 5)});
    play.say(low_first ? 2 : 0, AttemptFailed{{0}, failure_of(low_first ? 5 : 1)});
    play.all_stopped(0);
    CHECK(play.end().failure.rank == GlobalRank{1});
  }
  Play play(settings(3));
  play.run();
  play.say(2, AttemptFailed{{0}, failure_of(5)});
  play.now += 1us;
  play.say(0, AttemptFailed{{0}, failure_of(1)});
  play.all_stopped(0);
  CHECK(play.end().failure.rank == GlobalRank{5});
}

TEST_CASE("hosts that report broken connections first do not hide the rank that raised, in any order") {
  std::vector<int> order = {0, 1, 2, 3};
  do {
    Play play(settings(4));
    play.run();
    for (const int agent : order) {
      report::Failure failure = failure_of(2 * agent + 1);
      failure.last_lines = {agent == 1 ? "ValueError: bad sample" : "Connection closed by peer [10.0.0.2]:1"};
      play.say(agent, AttemptFailed{{0}, failure});
      play.now += 10ms;
    }
    for (const int agent : order) play.say(agent, Stopped{{0}, {}, {2 * agent}});
    CHECK(play.end().failure.rank == GlobalRank{3});
    CHECK(play.sent<Finish>()[0].second.victims == std::vector<int>{0, 1, 2, 4, 5, 6, 7});
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("the rank that raised may be told with the answer to the stop only, and is what a restart names") {
  Play play(settings(2, 1));
  play.run();
  report::Failure symptom = failure_of(0);
  symptom.last_lines = {"Connection reset by peer"};
  play.say(0, AttemptFailed{{0}, symptom});
  play.say(0, Stopped{{0}, {}});
  report::Failure late = failure_of(3);
  late.last_lines = {"Traceback (most recent call last):", "ValueError: bad sample"};
  late.after_stop = true;
  play.say(1, Stopped{{0}, {late}, {2}});
  REQUIRE(play.all<ShowRestart>().size() == 1);
  CHECK(play.all<ShowRestart>()[0].cause.rank == GlobalRank{3});
}

TEST_CASE("an agent that reports a rank it does not run is lost") {
  Play play(settings(2));
  play.run();
  play.say(1, AttemptFailed{{0}, failure_of(0)});
  REQUIRE(play.all<CloseConnection>().size() == 1);
  CHECK(play.sent<Stop>().size() == 1);
  play.say(0, Stopped{{0}, {}});
  CHECK(play.end().kind == report::Cause::Kind::agent_lost);
  CHECK(play.end_text() == "lost n2 (ranks 2-3): it reported a failure of rank 0, which it does not run");
}

TEST_CASE("who sends what no ddprun sends at that time is lost, and before the start may come back") {
  Play play(settings(3));
  play.say(0, join_of(0, 3));
  play.say(1, join_of(1, 3));
  const std::vector<AgentMessage> early{AttemptSucceeded{{0}}, AttemptFailed{{0}, failure_of(2)},
                                        Stopped{{0}, {}, {}},  Probed{{"10.0.0.1"}, {}},
                                        AttemptSucceeded{{1}}, join_of(1, 3)};
  for (const AgentMessage& message : early) {
    play.log.clear();
    play.say(1, message);
    CHECK(play.all<CloseConnection>().size() == 1);
    CHECK(play.all<EndJob>().empty());
    play.say(1, join_of(1, 3));
  }
  play.say(2, join_of(2, 3));
  play.store_ready(0);
  play.log.clear();
  play.say(1, Stopped{{0}, {}, {}});
  CHECK(play.all<CloseConnection>().size() == 1);
  play.say(0, Stopped{{0}, {}, {}});
  play.say(2, Stopped{{0}, {}, {}});
  CHECK(play.end_text() == "lost n2 (ranks 2-3): it sent an answer to a stop unexpectedly");
}

TEST_CASE("who speaks without having joined is not heard") {
  Play play(settings(2));
  play.run();
  const std::vector<AgentMessage> said{StopRequest{15, "n9", false}, AttemptSucceeded{{0}}, Happened{}};
  for (const AgentMessage& message : said) {
    play.log.clear();
    play.say(7, message);
    CHECK(play.log.size() == 1);
    CHECK(play.all<CloseConnection>().size() == 1);
  }
}

TEST_CASE("with restarts left all start again, in a new store, with the same ranks") {
  Play play(settings(2, 1));
  play.all_join();
  play.store_ready(0, 41000);
  const auto before = play.sent<Start>();
  play.log.clear();
  play.say(1, AttemptFailed{{0}, failure_of(2)});
  play.all_stopped(0);
  REQUIRE(play.log.size() == 5);  // 2 x Stop, then:
  CHECK(std::get<CloseStore>(play.log[2]).attempt == Attempt{0});
  CHECK(std::get<ShowRestart>(play.log[3]).next == Attempt{1});
  CHECK(std::get<ShowRestart>(play.log[3]).cause == failure_of(2));
  CHECK(std::get<OpenStore>(play.log[4]).attempt == Attempt{1});
  play.store_ready(0, 41001);  // late answer of another attempt
  CHECK(play.sent<Start>().empty());
  play.store_ready(1, 41002);
  const auto after = play.sent<Start>();
  REQUIRE(after.size() == 2);
  CHECK(after[1].second.assignment.attempt == Attempt{1});
  CHECK(after[1].second.assignment.master_port == 41002);
  CHECK(after[1].second.assignment.workers == before[1].second.assignment.workers);

  play.say(0, AttemptFailed{{0}, failure_of(0)});  // a straggler of the first attempt
  play.say(0, AttemptSucceeded{{0}});
  play.say(1, AttemptSucceeded{{1}});
  CHECK(play.all<EndJob>().empty());
  play.say(0, AttemptFailed{{1}, failure_of(0, 1)});
  play.all_stopped(1);
  CHECK(play.end().failure == failure_of(0, 1));  // no restart left
}

TEST_CASE("a lost agent stops the others and ends the job, also when restarts are left") {
  Play play(settings(3, 5));
  play.run();
  play.lose(2, "no answer for 20 s");
  CHECK(play.sent<Stop>().size() == 2);
  play.say(0, Stopped{{0}, {}});
  play.say(1, Stopped{{0}, {}});
  CHECK(play.end().kind == report::Cause::Kind::agent_lost);
  CHECK(play.end().host == "n3");
  CHECK(play.end_text() == "lost n3 (ranks 4-5): no answer for 20 s");
  CHECK(play.sent<Finish>().size() == 2);
}

TEST_CASE("an agent lost while stopping: a planned restart becomes the end, a decided end keeps its cause") {
  Play restarting(settings(3, 1));
  restarting.run();
  restarting.say(0, AttemptFailed{{0}, failure_of(1)});
  restarting.lose(2, "connection reset by peer");
  restarting.all_stopped(0);
  CHECK(restarting.end_text() == "lost n3 (ranks 4-5): connection reset by peer");
  CHECK(restarting.sent<Finish>()[0].second.remarks.empty());

  Play ending(settings(3));
  ending.run();
  ending.say(0, AttemptFailed{{0}, failure_of(1)});
  ending.lose(2, "connection reset by peer");
  ending.all_stopped(0);
  CHECK(ending.end().kind == report::Cause::Kind::worker_failed);
  CHECK(ending.sent<Finish>()[0].second.remarks ==
        std::vector<std::string>{"lost n3 (ranks 4-5): connection reset by peer"});
}

TEST_CASE("a stop request stops all and nothing is started again") {
  Play play(settings(2, 3));
  play.run();
  play.say(1, StopRequest{15, "n2"});
  play.say(0, StopRequest{15, "n1"});  // the scheduler signals every node; the first counts
  CHECK(play.sent<Stop>().size() == 2);
  play.say(0, AttemptFailed{{0}, failure_of(0)});  // died of the signal
  play.all_stopped(0);
  CHECK(play.end().kind == report::Cause::Kind::stopped_by_signal);
  CHECK(play.end().signal == 15);
  CHECK(play.end().host == "n2");
}

TEST_CASE(
    "Stop brings the other hosts the signal that was sent, and whether a scheduler sent it to a whole tree") {
  Play play(settings(2, 3));
  play.run();
  play.say(1, StopRequest{10, "n2", true});
  REQUIRE(play.sent<Stop>().size() == 2);
  for (const auto& [agent, stop] : play.sent<Stop>()) {
    CHECK(stop.signal == 10);
    CHECK(stop.whole_tree);
  }
  Play failed(settings(2));
  failed.run();
  failed.say(0, AttemptFailed{{0}, failure_of(0)});
  REQUIRE(failed.sent<Stop>().size() == 2);
  CHECK(failed.sent<Stop>()[0].second.signal == 15);
  CHECK_FALSE(failed.sent<Stop>()[0].second.whole_tree);
}

TEST_CASE("a signal while a failed attempt is being stopped ends the job and keeps the failure") {
  Play play(settings(2, 3));
  play.run();
  play.say(1, AttemptFailed{{0}, failure_of(3)});
  play.say(0, StopRequest{15, "n1"});
  play.all_stopped(0);
  CHECK(play.end().kind == report::Cause::Kind::stopped_by_signal);
  CHECK(play.end().failure == failure_of(3));
}

TEST_CASE("a signal that comes when all agents have succeeded changes nothing") {
  Play play(settings(2));
  play.run();
  play.say(0, AttemptSucceeded{{0}});
  play.say(1, StopRequest{15, "n2"});
  play.say(0, Stopped{{0}, {}});
  play.say(1, AttemptSucceeded{{0}});
  play.say(1, Stopped{{0}, {}});
  CHECK(play.end().kind == report::Cause::Kind::success);
}

TEST_CASE("a stop request while waiting ends at once, and who comes later is told") {
  Play play(settings(3));
  play.say(0, join_of(0, 3));
  play.say(0, StopRequest{2, "n1"});
  CHECK(play.end().kind == report::Cause::Kind::stopped_by_signal);
  play.log.clear();
  play.say(1, join_of(1, 3));
  REQUIRE(play.sent<Finish>().size() == 1);
  CHECK(play.sent<Finish>()[0].second.cause.kind == report::Cause::Kind::stopped_by_signal);
  CHECK(play.all<CloseConnection>().size() == 1);
  CHECK(play.all<EndJob>().empty());
}

TEST_CASE("an agent that never answers Stop is bounded") {
  Play play(settings(2));
  play.run();
  play.say(0, AttemptFailed{{0}, failure_of(0)});
  play.say(0, Stopped{{0}, {}});
  REQUIRE(play.coordinator.deadline());
  play.pass(40s);
  CHECK(play.end().kind == report::Cause::Kind::worker_failed);
  CHECK(play.sent<Finish>().size() == 2);
  CHECK(play.sent<Finish>()[0].second.remarks ==
        std::vector<std::string>{"n2 (ranks 2-3) did not stop its workers within 40 s"});
}

namespace {

// What an agent knows that keeps to the protocol; now and then one does not.
struct RandomAgent {
  void receive(const CoordinatorMessage& message) {
    state = after_received(message, state);
    if (std::holds_alternative<Probe>(message)) probe_is_due = true;
  }
  bool may_send(const AgentMessage& message) const {
    if (std::holds_alternative<Probed>(message)) return probe_is_due;
    if (std::holds_alternative<Stopped>(message)) return state == MemberState::asked;
    if (std::holds_alternative<StopRequest>(message)) return true;
    return state == MemberState::running || state == MemberState::asked;
  }
  void send(const AgentMessage& message) {
    state = after_sent(message, state);
    if (std::holds_alternative<Probed>(message)) probe_is_due = false;
  }

  MemberState state = MemberState::joined;
  bool probe_is_due = false;
};

}  // namespace

TEST_CASE("any order of events gives one end, one Finish each and no store or start too many") {
  RANDOM_SEED(seed);
  std::mt19937 random(seed);
  int starts = 0;
  int expelled = 0;
  const int most = test::rounds(150);
  for (int round = 0; round < most; ++round) {
    CAPTURE(round);
    const int agents = 1 + static_cast<int>(random() % 5);
    const int restarts = static_cast<int>(random() % 3);
    CoordinatorSettings chosen = settings(agents, restarts);
    if (round % 2 == 0) chosen.restarts.rule = sourced(options::RestartRule::always, "--restart-policy");
    if (round % 3 == 0) chosen.restarts.backoff = sourced(Milliseconds(2s), "--restart-backoff");
    Play play(chosen);
    std::map<int, RandomAgent> connected;
    std::set<int> stores;
    std::map<int, int> finishes;
    std::size_t read = 0;
    bool ended = false;
    int attempt = 0;
    const auto say = [&](int agent, const AgentMessage& message) {
      const auto found = connected.find(agent);
      if (found == connected.end()) return;
      if (!found->second.may_send(message) && random() % 100 != 0) return;
      found->second.send(message);
      play.say(agent, message);
    };

    for (int step = 0; step < 2000 && !ended; ++step) {
      const int agent = static_cast<int>(random() % static_cast<unsigned>(agents));
      play.now += std::chrono::milliseconds(random() % 50);
      switch (random() % 12) {
        case 0:
        case 1:
        case 2: {
          Join join = join_of(agent, agents, random() % 8 == 0 ? "10.1.0.1" : "10.0.0.1");
          join.announcement.max_restarts = restarts;
          if (connected.try_emplace(agent).second) play.say(agent, join);
          break;
        }
        case 3:
        case 4:
          say(agent, AttemptSucceeded{{attempt}});
          break;
        case 5:
          if (random() % 4 == 0) say(agent, AttemptFailed{{attempt}, failure_of(agent * 2, attempt)});
          break;
        case 6:
        case 7:
          say(agent, Stopped{{attempt}, {}});
          break;
        case 8:
          if (random() % 20 == 0 && agent != 0 && connected.erase(agent) > 0) play.lose(agent, "reset");
          break;
        case 9:
          if (random() % 40 == 0) say(agent, StopRequest{15, "n1"});
          break;
        case 10:
          say(agent, Probed{{"10.0.0.1"}});
          break;
        default:
          play.pass(std::chrono::seconds(random() % 3));
      }
      for (; read < play.log.size(); ++read) {
        const CoordinatorAction action = play.log[read];
        REQUIRE_FALSE(ended);
        if (const auto* open = std::get_if<OpenStore>(&action)) {
          REQUIRE(stores.empty());
          stores.insert(open->attempt.value);
          attempt = open->attempt.value;
          play.store_ready(attempt);
        } else if (const auto* close = std::get_if<CloseStore>(&action)) {
          REQUIRE(stores.erase(close->attempt.value) == 1);
        } else if (const auto* send = std::get_if<SendTo>(&action)) {
          const int to = send->connection.value;
          if (connected.contains(to)) connected[to].receive(send->message);
          if (std::holds_alternative<Start>(send->message)) ++starts;
          if (std::holds_alternative<Finish>(send->message)) ++finishes[to];
          if (std::holds_alternative<Refused>(send->message)) connected.erase(to);
        } else if (const auto* shut = std::get_if<CloseConnection>(&action)) {
          const int whose = shut->connection.value;
          if (finishes[whose] == 0 && connected.erase(whose) > 0) ++expelled;
        } else if (std::holds_alternative<EndJob>(action)) {
          ended = true;
        }
      }
    }
    play.pass(200s);
    REQUIRE(play.all<EndJob>().size() <= 1);
    if (!ended) continue;  // still running: nothing had to end it
    REQUIRE(stores.empty());
    for (int agent = 0; agent < agents; ++agent)
      REQUIRE(finishes[agent] == (connected.contains(agent) ? 1 : 0));
  }
  CHECK(starts > most);
  CHECK(expelled > most / 40);
}

TEST_CASE("hosts with unlike versions of torch are said once, and the job starts") {
  Play play(settings(2));
  for (int agent = 0; agent < 2; ++agent) {
    Join join = join_of(agent, 2);
    join.announcement.python = {"3.11", agent == 0 ? "2.13.0" : "1.13.1"};
    play.say(agent, join);
  }
  int said = 0;
  for (const CoordinatorAction& action : play.log) said += std::holds_alternative<ShowNotice>(action) ? 1 : 0;
  CHECK(said == 1);
  play.store_ready(0);
  CHECK(std::any_of(play.log.begin(), play.log.end(), [](const CoordinatorAction& action) {
    const auto* send = std::get_if<SendTo>(&action);
    return send != nullptr && std::holds_alternative<Start>(send->message);
  }));
}

StoreConnection connection_from(const std::string& client) { return {client, 4711, "10.0.0.1", 29500}; }

// Three agents, with an address each.
struct StoreQuestions : Play {
  StoreQuestions() : Play(settings(3)) {
    for (int agent = 0; agent < 3; ++agent) {
      Join join = join_of(agent, 3);
      join.announcement.addresses = {"10.0.0." + std::to_string(agent + 1)};
      say(agent, join);
    }
    store_ready(0);
    log.clear();
  }
  void ask(const std::string& client) {
    take(coordinator.on_store_client({connection_from(client), options::StoreAccess::user}, now));
  }
  std::vector<int> asked() const {
    std::vector<int> found;
    for (const auto& [agent, question] : sent<ClientQuestion>()) found.push_back(agent);
    return found;
  }
  std::vector<std::pair<std::string, Holder>> judged() const {
    std::vector<std::pair<std::string, Holder>> found;
    for (const JudgeClient& each : all<JudgeClient>())
      found.emplace_back(each.verdict.connection.client, each.verdict.holder);
    return found;
  }
};
using Judged = std::vector<std::pair<std::string, Holder>>;

TEST_CASE("whose a connection to the store is, the agent of its host says") {
  StoreQuestions play;
  play.ask("10.0.0.2");
  CHECK(play.asked() == std::vector<int>{1});
  play.say(2, ClientVerdict{connection_from("10.0.0.2"), Holder::own});  // it was not asked
  CHECK(play.judged().empty());
  play.say(1, ClientVerdict{connection_from("10.0.0.2"), Holder::foreign});
  CHECK(play.judged() == Judged{{"10.0.0.2", Holder::foreign}});
  play.say(1, ClientVerdict{connection_from("10.0.0.2"), Holder::own});  // once
  CHECK(play.judged().size() == 1);
}

TEST_CASE("about an address that no agent announced all are asked, and the first yes counts") {
  StoreQuestions play;
  play.ask("10.0.0.77");
  CHECK(play.asked() == std::vector<int>{0, 1, 2});
  play.say(0, ClientVerdict{connection_from("10.0.0.77"), Holder::elsewhere});
  CHECK(play.judged().empty());
  play.say(2, ClientVerdict{connection_from("10.0.0.77"), Holder::own});
  play.say(1, ClientVerdict{connection_from("10.0.0.77"), Holder::elsewhere});
  CHECK(play.judged() == Judged{{"10.0.0.77", Holder::own}});
  CHECK(play.coordinator.deadline() == std::nullopt);
}

TEST_CASE("without a yes the most that an agent knew is the verdict, also where one is silent for too long") {
  StoreQuestions play;
  play.ask("10.0.0.77");
  for (const int agent : {0, 0, 1}) {
    play.say(agent, ClientVerdict{connection_from("10.0.0.77"), Holder::elsewhere});
    CHECK(play.judged().empty());
  }
  play.say(2, ClientVerdict{connection_from("10.0.0.77"), Holder::foreign});
  CHECK(play.judged() == Judged{{"10.0.0.77", Holder::foreign}});
  play.ask("10.0.0.78");
  play.say(0, ClientVerdict{connection_from("10.0.0.78"), Holder::unknown});
  play.say(1, ClientVerdict{connection_from("10.0.0.1"), Holder::own});  // nobody asked that
  play.pass(ClientQuestions::k_limit - 1ms);
  CHECK(play.judged().size() == 1);
  play.pass(1ms);
  CHECK(play.judged().back() == std::pair(std::string("10.0.0.78"), Holder::unknown));
  play.say(1, ClientVerdict{connection_from("10.0.0.78"), Holder::own});  // too late
  CHECK(play.judged().size() == 2);
}

TEST_CASE("a program that is not there is no reason for a restart, a machine without room is") {
  const auto restarts = [](const ExitStatus& status) {
    Play play(settings(2, 3));
    play.run();
    report::Failure failure = failure_of(1);
    failure.status = status;
    play.say(0, AttemptFailed{{0}, failure});
    play.all_stopped(0);
    return !play.all<ShowRestart>().empty();
  };
  using Kind = ExitStatus::Kind;
  CHECK_FALSE(restarts({Kind::not_started, ENOENT, StartStage::exec, false}));
  CHECK_FALSE(restarts({Kind::not_started, EACCES, StartStage::exec, false}));
  CHECK_FALSE(restarts({Kind::not_started, ENOENT, StartStage::interpreter, false}));
  CHECK(restarts({Kind::not_started, EAGAIN, StartStage::process, false}));
  CHECK(restarts({Kind::not_started, EIO, StartStage::exec, false}));
  CHECK(restarts({Kind::exited, 127, {}, false}));
}

// ---- the restart policy: lifecycle/restart_policy_test.cpp has its rules

namespace {

// One rank of each attempt fails after this long.
void fail_attempt(Play& play, int attempt, std::chrono::milliseconds after, bool progressed = false) {
  play.now += after;
  play.say(0, AttemptFailed{{attempt}, failure_of(1, attempt)});
  play.say(0, Stopped{{attempt}, {}});
  play.say(1, Stopped{{attempt}, {}, {}, progressed});
  play.store_ready(attempt + 1);
}

CoordinatorSettings with_backoff(Milliseconds backoff) {
  CoordinatorSettings chosen = settings(2, 3);
  chosen.restarts.backoff = sourced(backoff, "--restart-backoff");
  chosen.record = true;
  chosen.live = true;
  return chosen;
}

}  // namespace

TEST_CASE("the same failure twice without progress ends the job, and says so") {
  Play play(settings(2, 3));
  play.run();
  fail_attempt(play, 0, 2s);
  CHECK(play.all<EndJob>().empty());
  fail_attempt(play, 1, 2s);
  CHECK(play.end().failure == failure_of(1, 1));
  CHECK(play.end_text() == "the same failure occurred twice in a row, and no worker made progress");
  CHECK(play.end().hint.starts_with("--restart-policy always "));
  const auto ends = play.sent<Finish>();
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].second.restarts == report::UsedRestarts{1, 3, {failure_of(1)}});
  CHECK(ends[1].second.restarts == report::UsedRestarts{});
}

TEST_CASE("progress on any agent, or by the time that the workers ran, goes on") {
  Play touched(settings(2, 3));
  touched.run();
  for (int attempt = 0; attempt < 3; ++attempt) fail_attempt(touched, attempt, 2s, true);
  CHECK(touched.all<ShowRestart>().size() == 3);
  Play long_enough(settings(2, 3));
  long_enough.run();
  for (int attempt = 0; attempt < 3; ++attempt) fail_attempt(long_enough, attempt, 6min);
  CHECK(long_enough.all<ShowRestart>().size() == 3);
}

TEST_CASE("progress of one attempt is not that of the next") {
  Play play(settings(2, 5));
  play.run();
  fail_attempt(play, 0, 2s, true);
  fail_attempt(play, 1, 2s);
  fail_attempt(play, 2, 2s);
  CHECK(play.all<ShowRestart>().size() == 2);
  CHECK(play.end().kind == report::Cause::Kind::worker_failed);
}

TEST_CASE("a restart that is to wait opens its store only then, and says how long") {
  Play play(with_backoff(5s));
  play.all_join();
  play.store_ready(0);
  CHECK(play.sent<Start>()[0].second.pause == 1min);
  play.log.clear();
  fail_attempt(play, 0, 2s);
  REQUIRE(play.all<ShowRestart>().size() == 1);
  CHECK(play.all<ShowRestart>()[0].delay == 5s);
  CHECK(play.all<OpenStore>().empty());
  CHECK(play.sent<Start>().empty());
  CHECK(play.all<Record>().back().event.what ==
        "rank 1 on n1 exited with code 1; starting all workers again in 5 s");
  play.pass(4s);
  CHECK(play.all<OpenStore>().empty());
  CHECK(play.all<ShowStatus>().back().text == "starting all workers again in 1 s");
  play.say(0, JobQuestion{});
  for (int agent = 0; agent < 2; ++agent) play.say(agent, StatusAnswer{1, {}});
  REQUIRE(play.sent<JobShown>().size() == 1);
  CHECK(play.sent<JobShown>()[0].second.job.phase == "waiting to restart");
  play.pass(1s);
  REQUIRE(play.all<OpenStore>().size() == 1);
  CHECK(play.all<OpenStore>()[0].attempt == Attempt{1});
  CHECK(play.all<ShowStatus>().back().text.empty());
  play.store_ready(1);
  CHECK(play.sent<Start>().size() == 2);
}

TEST_CASE("a signal or a lost agent ends a job that waits to restart at once, with one store closed") {
  Play signalled(with_backoff(5s));
  signalled.run();
  fail_attempt(signalled, 0, 2s);
  signalled.pass(2s);
  signalled.say(1, StopRequest{2, "n2"});
  CHECK(signalled.end().kind == report::Cause::Kind::stopped_by_signal);
  CHECK(signalled.sent<Finish>().size() == 2);
  CHECK(signalled.all<CloseStore>().size() == 1);
  CHECK(signalled.sent<Finish>()[0].second.restarts.used == 1);
  Play lost(with_backoff(5s));
  lost.run();
  fail_attempt(lost, 0, 2s);
  lost.lose(1, "no answer for 20 s");
  CHECK(lost.end().kind == report::Cause::Kind::agent_lost);
  CHECK(lost.sent<Finish>().size() == 1);
}

TEST_CASE("a signal while a failure is stopped that the policy does not answer leaves it the cause") {
  CoordinatorSettings chosen = settings(2, 3);
  chosen.restarts.no_restart_on = sourced(std::vector<int>{1}, "--no-restart-on");
  Play play(chosen);
  play.run();
  play.say(0, AttemptFailed{{0}, failure_of(1)});
  play.say(1, StopRequest{15, "n2"});
  play.all_stopped(0);
  CHECK(play.end().kind == report::Cause::Kind::worker_failed);
  CHECK(play.end_text() == "exit code 1 is in --no-restart-on");
}

TEST_CASE(
    "a signal or a loss while stopping is not forgotten where another failure turns out to be the cause") {
  CoordinatorSettings chosen = settings(3, 3);
  chosen.restarts.no_restart_on = sourced(std::vector<int>{1}, "--no-restart-on");
  report::Failure symptom = failure_of(0);
  symptom.last_lines = {"Connection reset by peer"};
  report::Failure own = failure_of(3);
  own.status.value = 2;
  own.last_lines = {"Traceback (most recent call last):", "ValueError: bad sample"};
  own.after_stop = true;
  const auto play_with = [&](const std::function<void(Play&)>& event) {
    Play play(chosen);
    play.run();
    play.say(0, AttemptFailed{{0}, symptom});
    event(play);
    play.say(0, Stopped{{0}, {}});
    play.say(1, Stopped{{0}, {own}});
    if (!play.lost.contains(2)) play.say(2, Stopped{{0}, {}});
    return play;
  };
  CHECK(play_with([](Play&) {}).all<ShowRestart>().size() == 1);
  const Play signalled = play_with([](Play& play) { play.say(1, StopRequest{15, "n2"}); });
  CHECK(signalled.all<ShowRestart>().empty());
  CHECK(signalled.end().kind == report::Cause::Kind::stopped_by_signal);
  CHECK(signalled.end().failure.rank == GlobalRank{3});
  CHECK(signalled.sent<Finish>()[0].second.restarts.used == 0);
  const Play lost = play_with([](Play& play) { play.lose(2, "reset"); });
  CHECK(lost.end().kind == report::Cause::Kind::agent_lost);
  CHECK(lost.end_text() == "lost n3 (ranks 4-5): reset");
  CHECK(lost.sent<Finish>()[0].second.remarks.empty());
}

// ---- --status

namespace {

StatusAnswer answer_of(int agent, int question = 1) {
  status::WorkerStatus worker;
  worker.rank = agent;
  return {question, {"n" + std::to_string(agent + 1), Milliseconds{1}, {worker}}};
}

}  // namespace

TEST_CASE("how a job is, all agents are asked; the answers are shown in the order of the ranks") {
  Play play(settings(3));
  play.run();
  play.say(0, JobQuestion{});
  CHECK(play.sent<StatusQuestion>().size() == 3);
  play.say(2, JobQuestion{});  // somebody on another host, who gets the same answer
  CHECK(play.sent<StatusQuestion>().size() == 3);
  for (const int agent : {2, 0, 0}) play.say(agent, answer_of(agent));
  play.say(1, answer_of(1, 7));  // to no question of this coordinator's
  CHECK(play.sent<JobShown>().empty());
  play.say(1, answer_of(1));
  REQUIRE(play.sent<JobShown>().size() == 2);
  std::vector<int> askers;
  for (const auto& [connection, shown] : play.sent<JobShown>()) {
    askers.push_back(connection);
    CHECK(shown.job.phase == "running");
    CHECK(shown.job.nodes == 3);
  }
  CHECK(askers == std::vector{0, 2});
  std::vector<std::pair<int, int>> nodes;
  for (const auto& [connection, shown] : play.sent<NodeShown>())
    nodes.emplace_back(connection, shown.node.workers[0].rank);
  CHECK(nodes == std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {0, 2}, {2, 0}, {2, 1}, {2, 2}});
  play.say(1, answer_of(1));  // late, and asked again it counts
  play.say(0, JobQuestion{});
  CHECK(play.sent<StatusQuestion>().size() == 6);
  CHECK(play.sent<JobShown>().size() == 2);
}

TEST_CASE("who asks how the job is and is lost is sent nothing") {
  Play play(settings(3));
  play.run();
  play.say(2, JobQuestion{true});
  play.lose(2, "it is gone");
  for (const int agent : {0, 1}) play.say(agent, answer_of(agent));
  CHECK(play.sent<JobShown>().empty());
}

TEST_CASE("an agent that says nothing, or is lost, does not keep the others' answers back") {
  Play play(settings(3));
  play.run();
  play.say(0, JobQuestion{});
  for (const int agent : {0, 1}) play.say(agent, answer_of(agent));
  play.pass(StatusRound::k_limit);
  REQUIRE(play.sent<JobShown>().size() == 1);
  CHECK(play.sent<NodeShown>().size() == 2);
  CHECK(play.sent<JobShown>()[0].second.job.silent.size() == 1);
  CHECK_FALSE(play.coordinator.deadline());
  play.say(0, JobQuestion{});
  for (const int agent : {0, 1}) play.say(agent, answer_of(agent, 2));
  play.lose(2, "it is gone");
  play.pass(StatusRound::k_limit);
  REQUIRE(play.sent<JobShown>().size() == 2);
  CHECK(play.sent<JobShown>()[1].second.job.phase == "stopping the workers");
  CHECK(play.sent<JobShown>()[1].second.job.silent.empty());
}

TEST_CASE("before all are there, who is missing is said") {
  Play play(settings(3));
  Join first = join_of(0, 3);
  play.say(0, first);
  play.say(0, JobQuestion{});
  play.say(0, answer_of(0));
  REQUIRE(play.sent<JobShown>().size() == 1);
  CHECK(play.sent<JobShown>()[0].second.job.phase == "waiting for 2 of 3 nodes: n[2-3]");
}
