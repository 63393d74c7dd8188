#include "selflaunch/self_launch.hpp"

#include <csignal>

#include "catch.hpp"
#include "self_launch_play.hpp"

using namespace ddprun;
using namespace ddprun::selflaunch;
using namespace ddprun::test;
using namespace std::chrono_literals;

// ---- signals

TEST_CASE("a stop signal goes to the agents, and as SIGTERM to the remote launchers without one") {
  Play play(by_ssh(3));
  play.connect(1);
  play.forget();
  play.signal(SIGINT, /*from_person=*/false);
  CHECK(play.said() == Words{"judge 2 from above"});
  play.judged(SIGINT, /*pass_on=*/false);
  CHECK(play.said() == Words{"signal agents with 2, whole tree", "signal 0 with 15", "signal 2 with 15"});
  play.end(0, 255, "terminated");  // no failed start
  CHECK(play.said().empty());
}

TEST_CASE("a person's second stop signal hurries all") {
  Play play(by_ssh(2));
  play.connect_all();
  play.stop(SIGINT);
  play.pass(100ms);
  play.forget();
  play.signal(SIGINT);
  CHECK(play.said() == Words{"signal agents with 2, hurry"});
  CHECK(play.launch.deadline() == play.now + 5s);
  play.pass(99ms);
  play.signal(SIGINT);  // the second one again
  CHECK(play.said().empty());
  play.pass(1ms);
  play.signal(SIGINT);
  CHECK(play.said() == Words{"signal agents with 2, hurry"});
}

TEST_CASE("a second stop signal within 100 ms is the first again, a scheduler's never hurries") {
  Play play(by_ssh(1));
  play.connect(0);
  play.stop(SIGTERM);
  play.pass(99ms);
  play.forget();
  play.signal(SIGTERM);
  CHECK(play.said().empty());
  play.signal(SIGINT);
  CHECK(play.said() == Words{"judge 2"});
  play.pass(10s);
  play.signal(SIGTERM, /*from_person=*/false);
  CHECK(play.said().empty());
  play.signal(SIGINT, /*from_person=*/false);
  CHECK(play.said() == Words{"judge 2 from above"});
  play.end_agent(0, 1);
  play.end(0, 1);
  CHECK(play.drained_words() == Words{"count losses", "leave with 1"});
}

TEST_CASE(
    "other signals go to the agents; where there is none, to the remote launchers that still need them") {
  Play play(by_ssh(2));
  play.forget();
  play.take(play.launch.on_signal({SIGXCPU, true, /*is_passed_on=*/false, false}, play.now));
  CHECK(play.said().empty());
  play.signal(SIGUSR1);
  CHECK(play.said() == Words{"judge 10"});
  play.judged(SIGUSR1);
  CHECK(play.said() == Words{"signal 0 with 10", "signal 1 with 10"});
  play.judged(SIGUSR1, /*pass_on=*/false);
  CHECK(play.said().empty());
  play.connect(0);
  play.judged(SIGUSR1, /*pass_on=*/false);
  CHECK(play.said() == Words{"signal agents with 10, whole tree"});
  CHECK_FALSE(play.launch.deadline());
}

TEST_CASE("a stop signal while output is written gives up what is not read soon, once") {
  Play play(by_ssh(1));
  play.connect(0);
  play.end_agent(0, 0);
  play.end(0, 0);
  CHECK(play.said() == Words{"start 0", "drain"});
  play.signal(SIGINT);
  CHECK(play.said() == Words{"drain for 2 s"});
  play.signal(SIGINT);
  CHECK(play.said().empty());
  CHECK(play.drained_words() == Words{"count losses", "leave with 0"});
}

// ---- giving up on the remote launchers

TEST_CASE("agents have their grace and 20 s to stop, then the remote launchers are ended and left") {
  Play play(by_ssh(2));
  play.connect_all();
  play.stop();
  play.end(1, 143);
  play.forget();
  play.pass(49999ms);
  CHECK(play.said().empty());
  play.pass(1ms, /*busy=*/true);
  CHECK(play.said() == Words{"signal 0 with 15"});
  play.pass(4999ms);
  CHECK(play.said().empty());
  play.pass(1ms);
  CHECK(play.said() == Words{"signal 0 with 9"});
  play.pass(5s);
  CHECK(play.said() == Words{"drain for 2 s"});
  CHECK_FALSE(play.launch.deadline());
  CHECK(play.drained_words() == Words{"count losses", "leave with 143"});
}

TEST_CASE("where no agent is connected a stop signal leaves the remote launchers five seconds") {
  Play play(by_ssh(1));
  play.stop();
  CHECK(play.said() == Words{"start 0", "judge 15", "signal 0 with 15"});
  play.pass(5s);
  CHECK(play.said() == Words{"signal 0 with 15"});
  play.pass(5s);
  CHECK(play.said() == Words{"signal 0 with 9"});
  play.end(0, 137);
  CHECK(play.said() == Words{"drain for 2 s"});
}

TEST_CASE("a remote launcher that ends while its agent is connected ends nothing") {
  Play play(by_ssh(2));
  play.connect_all();
  play.forget();
  play.end(0, 255);
  play.end(1, 1);
  CHECK(play.said().empty());
  CHECK_FALSE(play.launch.deadline());
  play.end_agent(0, 0);
  CHECK(play.said().empty());
  play.end_agent(1, 0);
  CHECK(play.said() == Words{"drain"});
  CHECK(play.drained_words() == Words{"count losses", "leave with 0"});
}

TEST_CASE(
    "when no agent is left the remote launchers have 5 s, 3 s where one was lost, and a second a step") {
  for (const bool lost : {false, true}) {
    Play play(by_ssh(2));
    play.connect_all();
    play.forget();
    play.end_agent(0, 0);
    CHECK_FALSE(play.launch.deadline());
    lost ? play.lose(1) : play.end_agent(1, 0);
    play.end(0, 0);
    play.pass(lost ? 2999ms : 4999ms);
    CHECK(play.said().empty());
    play.pass(1ms);
    CHECK(play.said() == Words{"signal 1 with 15"});
    play.pass(1s);
    CHECK(play.said() == Words{"signal 1 with 9"});
    play.pass(1s);
    CHECK(play.said() == Words{"drain for 2 s"});
  }
}

TEST_CASE("a remote launcher whose output flows, or waits for its reader, is given time until it does not") {
  Play play(by_ssh(1));
  play.connect(0);
  play.end_agent(0, 0);
  play.forget();
  play.pass(60s, /*busy=*/true);
  CHECK(play.said().empty());
  CHECK(play.launch.deadline() == play.now + 1s);
  play.pass(1s);
  CHECK(play.said() == Words{"signal 0 with 15"});
  play.pass(1s, /*busy=*/true);
  CHECK(play.said() == Words{"signal 0 with 9"});
}

TEST_CASE("after a stop signal output that flows gives a remote launcher no time") {
  Play play(by_ssh(1));
  play.connect(0);
  play.stop();
  play.end_agent(0, 143);
  play.forget();
  play.pass(5s, /*busy=*/true);
  CHECK(play.said() == Words{"signal 0 with 15"});
}

TEST_CASE(
    "hosts whose agent never called back may be at work: they have the grace and 20 s after the others") {
  Play play(by_ssh(2));
  play.connect(0);
  play.end_agent(0, 0);
  play.end(0, 0);
  play.forget();
  play.pass(49999ms);
  CHECK(play.said().empty());
  play.pass(1ms, /*busy=*/true);
  CHECK(play.said() == Words{"signal 1 with 15"});
  play.pass(5s);
  CHECK(play.said() == Words{"signal 1 with 9"});
}

TEST_CASE(
    "agents that end while all are stopped prolong nothing, nor do those that come when no agent is left") {
  for (const bool failed : {false, true}) {
    Play play(by_ssh(3));
    play.connect(0);
    failed ? play.end(1, 127) : play.stop();
    play.pass(15s);
    CHECK(play.launch.deadline() == play.now + 35s);
    play.end_agent(0, 143);
    CHECK(play.launch.deadline() == play.now + 35s);
  }
  Play play(by_ssh(1));
  play.connect(0);
  play.lose(0);
  const auto deadline = play.launch.deadline();
  CHECK(deadline == play.now + 3s);
  play.pass(2s);
  play.connect(0);
  play.end_agent(0, 0);
  CHECK(play.launch.deadline() == deadline);
}

TEST_CASE("where all are stopped it is not said that a host is missing") {
  Play play(by_ssh(2));
  play.connect(0);
  play.end(1, 0);
  play.stop();
  play.forget();
  play.pass(20s);
  CHECK(play.said().empty());
}

TEST_CASE("a host that has reported nothing when its remote launcher is abandoned is no success") {
  Play play(by_ssh(2));
  play.connect(0);
  play.end_agent(0, 0);
  play.end(0, 0);
  play.pass(60s);
  play.forget();
  play.drained();
  CHECK(play.said() ==
        Words{"1 of 2 hosts did not report how ddprun ended there; hint: see the output above for the cause",
              "count losses", "leave with 125"});
}
