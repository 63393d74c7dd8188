#include "selflaunch/self_launch.hpp"

#include <cerrno>
#include <csignal>
#include <string>

#include "catch.hpp"
#include "self_launch_play.hpp"

using namespace ddprun;
using namespace ddprun::selflaunch;
using namespace ddprun::test;
using namespace std::chrono_literals;

TEST_CASE("a job of self-launched agents that goes well ends with 0 and waits for its output") {
  Play play(by_ssh(2));
  CHECK(play.said() == Words{"start 0", "start 1"});
  play.connect_all();
  CHECK_FALSE(play.launch.deadline());
  play.end_agent(1, 0);
  play.end(1, 0);
  play.end_agent(0, 0);
  CHECK(play.said().empty());
  play.end(0, 0);
  CHECK(play.said() == Words{"drain"});
  play.drained();
  CHECK(play.said() == Words{"count losses", "leave with 0"});
  CHECK_FALSE(play.launch.deadline());
  play.take(play.launch.on_drained());  // of an earlier request
  CHECK(play.said().empty());
  CHECK(play.details() == Words{"ddprun on n1 has connected", "ddprun on n2 has connected",
                                "ddprun on n2 ended with 0", "ddprun on n1 ended with 0"});
}

// ---- starting

TEST_CASE(
    "at most 32 remote launchers are starting: an agent, an end or five seconds let the next ones start") {
  Play play(by_ssh(40));
  CHECK(play.said().size() == 32);
  play.connect(3);
  CHECK(play.said() == Words{"start 32"});
  play.connect(3);  // for the second time: it was settled
  CHECK(play.said().empty());
  play.end(5, 0);
  CHECK(play.said() == Words{"start 33"});
  play.end(3, 0);
  CHECK(play.said().empty());
  play.pass(4999ms);
  CHECK(play.said().empty());
  play.pass(1ms);
  CHECK(play.said() == Words{"start 34", "start 35", "start 36", "start 37", "start 38", "start 39"});
  play.pass(4s);  // all are started: what settles now starts nothing
  CHECK(play.said().empty());
}

TEST_CASE("after a stop signal nothing is started, and what was never started needs no end") {
  Play play(by_ssh(34));
  play.forget();
  play.signal(SIGTERM);
  CHECK(play.said() == Words{"judge 15"});
  play.connect(0);
  CHECK(play.said() == Words{"signal agents with 15"});
  play.pass(5s);
  CHECK(play.said().empty());
  play.judged(SIGTERM);
  play.end_agent(0, 143);
  play.forget();
  for (std::size_t i = 0; i < 31; ++i) play.end(i, 143);
  CHECK(play.said().empty());
  play.end(31, 143);
  CHECK(play.said() == Words{"drain for 2 s"});
  CHECK(play.drained_words() == Words{"count losses", "leave with 143"});
}

TEST_CASE("with one remote launcher for all hosts every agent is its own") {
  Play play(by_srun(3));
  CHECK(play.said() == Words{"start 0"});
  play.connect(2);
  play.stop();
  CHECK(play.said() == Words{"judge 15", "signal agents with 15"});
}

TEST_CASE("where no agent has connected for 30 s it is said once, and not after the first of them") {
  Play silent(by_srun(2));
  silent.pass(29999ms);
  silent.forget();
  silent.pass(1ms);
  CHECK(
      silent.said() ==
      Words{"srun has been starting ddprun on n[1-2] for 30 s, but none has connected to port 40123 of this "
            "host"});
  CHECK_FALSE(silent.launch.deadline());

  Play heard(by_srun(2));
  heard.connect(1);
  heard.forget();
  heard.pass(60s);
  CHECK(heard.said().empty());
}

TEST_CASE("an agent that comes before its remote launcher is started settles it all the same") {
  SelfLaunchSettings one_at_once = settings();
  one_at_once.limits.starting_at_once = 1;
  Play play(by_ssh(4), one_at_once);
  play.connect(1);
  CHECK(play.said() == Words{"start 0"});
  play.connect(0);
  CHECK(play.said() == Words{"start 1", "start 2"});
}

// ---- failed starts

TEST_CASE("a failed start stops the others, is explained and gives its code") {
  Play play(by_ssh(3));
  play.connect(0);
  play.forget();
  play.end(1, 127, "ddprun: not found");
  CHECK(play.said() ==
        Words{"cannot start ddprun on n2: ssh ended with 127: ddprun: not found; hint: try ssh n2 "
              "true",
              "signal agents with 15, explained", "signal 2 with 15"});
  play.end(2, 255, "killed");  // since we stopped it
  play.end_agent(0, 143);
  CHECK(play.said().empty());
  play.end(0, 143);
  CHECK(play.said() == Words{"drain"});
  CHECK(play.drained_words() == Words{"count losses", "leave with 127"});
}

TEST_CASE("the code by which ssh tells its own failure becomes ddprun's own") {
  Play play(by_ssh(1));
  play.forget();
  play.end(0, 255);
  CHECK(play.said() ==
        Words{"cannot start ddprun on n1: ssh ended with 255; hint: try ssh n1 true", "drain"});
  CHECK(play.drained_words() == Words{"count losses", "leave with 125"});
}

TEST_CASE("a remote launcher that cannot be run is a failed start, whatever its code") {
  Play play(by_ssh(2));
  play.forget();
  const ExitStatus status{ExitStatus::Kind::not_started, EAGAIN, StartStage::process, false};
  play.end(0, status, "resource temporarily unavailable");
  CHECK(play.said() ==
        Words{"cannot start ddprun on n1: ssh ended with 125: resource temporarily unavailable; "
              "hint: try ssh n1 true",
              "signal 1 with 15"});
}

TEST_CASE("where the remote launcher passes the task, every failure without an agent is a failed start") {
  Play play(by_srun(2));
  play.forget();
  play.end(0, 1, "srun: error: Unable to allocate resources");
  CHECK(play.said() ==
        Words{"cannot start ddprun on n[1-2]: srun ended with 1: srun: error: Unable to allocate "
              "resources",
              "drain"});
  CHECK(play.drained_words() == Words{"count losses", "leave with 1"});
}

TEST_CASE(
    "a code that may be the job's is one of a missing host if the others have not ended ten seconds later") {
  for (const int code : {3, 0}) {
    Play play(by_ssh(2));
    play.connect(0);
    play.forget();
    play.end(1, code);
    play.pass(9999ms);
    CHECK(play.said().empty());
    play.pass(1ms);
    CHECK(play.said() == Words{"ddprun did not start on n2: ssh ended with " + std::to_string(code) +
                                   ", and the other hosts wait for it; hint: try ssh n2 ddprun --version",
                               "signal agents with 15, explained"});
    play.end_agent(0, 143);
    play.end(0, 143);
    CHECK(play.drained_words() ==
          Words{"count losses", "leave with " + std::to_string(code == 0 ? 125 : code)});
  }
}

TEST_CASE("an agent that connects after its remote launcher has ended is not missing") {
  Play play(by_pbsdsh(2));
  play.connect(0);
  play.end(1, 0);
  play.pass(5s);
  play.connect(1);
  play.forget();
  play.pass(60s);
  CHECK(play.said().empty());
}

TEST_CASE(
    "the code by which a remote launcher tells its own failure is not the job's ten seconds later either") {
  SelfLaunchPlan plan = by_ssh(2);
  plan.task = TaskWay::lifeline;
  plan.passes_exit_code = false;
  Play play(std::move(plan));
  play.connect(0);
  play.end(1, ExitStatus{ExitStatus::Kind::exited, 255, {}, false});
  play.pass(10s);
  play.end_agent(0, 143);
  play.end(0, 143);
  CHECK(play.drained_words().back() == "leave with 125");
}

TEST_CASE("of several missing hosts the first is named, with what shows the reason") {
  Play play(by_pbsdsh(3));
  play.connect(0);
  play.forget();
  play.end(2, 0);
  play.end(1, 0);
  play.pass(10s);
  CHECK(play.said() ==
        Words{"ddprun did not start on n3: pbsdsh ended with 0, and the other hosts wait for it; "
              "hint: try pbsdsh -n 1 /opt/ddprun --version in the job to check ddprun on n3",
              "signal agents with 15, explained"});
}

TEST_CASE("where all end within ten seconds without an agent it was the job, which no agent could tell") {
  Play play(by_ssh(2));
  play.end(1, 3);
  play.pass(9s);
  play.forget();
  play.end(0, 3);
  CHECK(play.said() == Words{"drain"});
  play.take(play.launch.on_time(play.now + 1h, false));  // of a timer that was set before
  CHECK(play.said().empty());
  CHECK(play.drained_words() ==
        Words{"ssh ended with 3, and no ddprun on n[1-2] connected back; hint: see the "
              "output above for the cause",
              "count losses", "leave with 3"});
}

TEST_CASE("an agent that ends before it has joined the others is a failure, and they are stopped") {
  Play play(by_ssh(2));
  play.connect_all();
  play.forget();
  play.end_agent(1, 2, /*started=*/false);
  CHECK(play.said() == Words{"signal agents with 15, explained"});
  play.end_agent(0, 1, /*started=*/false);
  play.end(0, 0);
  play.end(1, 0);
  CHECK(play.said() == Words{"drain"});
  CHECK(play.drained_words() == Words{"count losses", "leave with 2"});
}

TEST_CASE("an agent that comes while the others are stopped is told to stop") {
  Play failed(by_ssh(3));
  failed.connect(0);
  failed.end(1, 127);
  failed.forget();
  failed.connect(2);
  CHECK(failed.said() == Words{"signal agents with 15, explained"});

  Play stopped(by_ssh(2));
  stopped.stop(SIGINT);
  stopped.forget();
  stopped.connect(1);
  CHECK(stopped.said() == Words{"signal agents with 2"});
}

// ---- the end

TEST_CASE("an agent that is lost without a word gives a failure and a sentence") {
  Play play(by_srun(2));
  play.connect_all();
  play.end_agent(0, 0);
  play.lose(1);
  play.end(0, 0);
  CHECK(play.drained_words() ==
        Words{"lost the connection to ddprun on n2; hint: see the output above for the "
              "cause, or that host's system log",
              "count losses", "leave with 125"});
  CHECK(play.details().back() == "lost ddprun on n2: reset");
}

TEST_CASE("where another agent has told a failure, a lost one needs no sentence") {
  Play play(by_srun(2));
  play.connect_all();
  play.lose(1);
  play.end_agent(0, 125);
  play.end(0, 0);
  CHECK(play.drained_words() == Words{"count losses", "leave with 125"});
}

TEST_CASE("silence is no success where the remote launcher does not pass exit codes") {
  Play play(by_pbsdsh(3));
  play.connect(0);
  play.end_agent(0, 0);
  for (std::size_t i = 0; i < 3; ++i) play.end(i, 0);
  CHECK(play.drained_words() ==
        Words{"2 of 3 hosts did not report how ddprun ended there; hint: see the output "
              "above for the cause; pbsdsh does not pass on exit codes",
              "count losses", "leave with 125"});

  Play passing(by_ssh(3));
  passing.connect(0);
  passing.end_agent(0, 0);
  for (std::size_t i = 0; i < 3; ++i) passing.end(i, 0);
  CHECK(passing.drained_words() == Words{"count losses", "leave with 0"});
}

TEST_CASE("output that was lost is said, and makes a failure of a success only") {
  const auto end = [](int code) {
    Play play(by_ssh(1));
    play.connect(0);
    play.end_agent(0, code);
    play.end(0, code);
    return play.drained_words({"standard output on n1 is incomplete: no space left on device"});
  };
  CHECK(end(0) == Words{"count losses", "standard output on n1 is incomplete: no space left on device",
                        "leave with 125"});
  CHECK(end(7).back() == "leave with 7");
}

TEST_CASE("of the exit codes a failure counts first, then an agent's, the signal's, a remote launcher's") {
  const auto leave = [](Play& play) { return play.drained_words().back(); };
  Play all(by_ssh(3));
  all.connect(0);
  all.connect(1);
  all.end_agent(1, 7);
  all.end_agent(0, 9);
  all.end(2, 126);  // a failed start
  all.stop();
  all.end(0, 9);
  all.end(1, 7);
  CHECK(leave(all) == "leave with 126");

  Play told(by_ssh(3));
  told.connect(0);
  told.connect(1);
  told.stop();
  told.end_agent(1, 7);
  told.end_agent(0, 9);
  for (const std::size_t i : {0U, 1U, 2U}) told.end(i, 3);
  CHECK(leave(told) == "leave with 7");

  Play stopped(by_ssh(2));
  stopped.connect(0);
  stopped.stop(SIGINT);
  stopped.end_agent(0, 0);
  for (const std::size_t i : {0U, 1U}) stopped.end(i, 3);
  CHECK(leave(stopped) == "leave with 130");

  Play passed(by_ssh(3));
  passed.connect(0);
  passed.end_agent(0, 0);
  passed.end(0, 0);
  passed.end(2, 5);
  passed.end(1, 3);
  CHECK(leave(passed) == "leave with 3");
}

TEST_CASE("where all agents have said 0 neither a stop signal nor a remote launcher's code counts") {
  Play play(by_ssh(1));
  play.connect(0);
  play.stop();
  play.end_agent(0, 0);
  play.end(0, 255);
  CHECK(play.drained_words() == Words{"count losses", "leave with 0"});
}

TEST_CASE("the code of a remote launcher that was ended after a loss is not the job's") {
  Play play(by_srun(2));
  play.connect_all();
  play.lose(0);
  play.lose(1);
  play.pass(3s);
  play.end(0, 143);
  CHECK(play.drained_words().back() == "leave with 125");
}
