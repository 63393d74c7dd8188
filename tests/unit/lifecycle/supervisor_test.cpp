#include "lifecycle/supervisor.hpp"

#include <csignal>
#include <map>
#include <random>
#include <set>
#include <string>

#include "catch.hpp"
#include "random_seed.hpp"

using namespace ddprun;
using namespace ddprun::lifecycle;

namespace {

const TimePoint k_start{};

TimePoint at(int milliseconds) { return k_start + Milliseconds{milliseconds}; }

plan::Assignment world_of(int workers, int attempt = 0) {
  plan::Assignment assignment;
  assignment.attempt = Attempt{attempt};
  assignment.world_size = workers;
  for (int i = 0; i < workers; ++i) assignment.workers.push_back({GlobalRank{i}, LocalRank{i}, i, workers});
  return assignment;
}

ExitStatus exited(int code) { return {ExitStatus::Kind::exited, code, {}, false}; }
ExitStatus killed(int signal) { return {ExitStatus::Kind::signalled, signal, {}, false}; }

struct Describe {
  std::string operator()(const act::Spawn& a) const { return "spawn " + std::to_string(a.worker); }
  std::string operator()(const act::SignalWorker& a) const {
    return "signal " + std::to_string(a.worker) + " with " + std::to_string(a.signal);
  }
  std::string operator()(const act::ContinueWorker& a) const {
    return "continue " + std::to_string(a.worker);
  }
  std::string operator()(const act::LookWhereTheyAre&) const { return "look where they are"; }
  std::string operator()(const act::KillGroup& a) const { return "kill group " + std::to_string(a.worker); }
  std::string operator()(const act::SignalDescendants& a) const {
    return "sweep " + std::to_string(a.signal);
  }
  std::string operator()(const act::ReportFailure& a) const { return "failed " + std::to_string(a.worker); }
  std::string operator()(const act::ReportStuck& a) const { return "stuck " + std::to_string(a.worker); }
  std::string operator()(const act::ReportLeftBehind&) const { return "left behind"; }
  std::string operator()(const act::ReportRequest& a) const { return "asked by " + std::to_string(a.signal); }
  std::string operator()(const act::ReportSuccess&) const { return "succeeded"; }
  std::string operator()(const act::ReportStopped&) const { return "stopped"; }
};

std::vector<std::string> decide(Supervisor& supervisor, TimePoint now) {
  std::vector<std::string> words;
  for (const auto& action : supervisor.decide(now)) {
    // Each stop has them; one test shows them.
    if (!std::holds_alternative<act::ContinueWorker>(action)) words.push_back(std::visit(Describe{}, action));
  }
  return words;
}

using Words = std::vector<std::string>;

Supervisor running(int workers, Milliseconds grace = Milliseconds{1000}) {
  Supervisor supervisor(grace);
  supervisor.note_start(world_of(workers));
  supervisor.decide(k_start);
  for (int i = 0; i < workers; ++i) supervisor.note_spawned(static_cast<std::size_t>(i));
  return supervisor;
}

}  // namespace

TEST_CASE("a start spawns every worker once") {
  Supervisor supervisor(Milliseconds{1000});
  CHECK(supervisor.idle());
  supervisor.note_start(world_of(2));
  CHECK(decide(supervisor, k_start) == Words{"spawn 0", "spawn 1"});
  CHECK(decide(supervisor, k_start).empty());
  CHECK_FALSE(supervisor.idle());
}

TEST_CASE("when all succeed what they left is swept and success reported") {
  Supervisor supervisor = running(2);
  supervisor.note_ended(0, exited(0));
  CHECK(decide(supervisor, at(1)).empty());
  supervisor.note_ended(1, exited(0));
  CHECK(decide(supervisor, at(2)) == Words{"sweep " + std::to_string(SIGTERM)});
  supervisor.note_descendants(0);
  CHECK(decide(supervisor, at(3)) == Words{"succeeded"});
  CHECK(supervisor.idle());
}

TEST_CASE("a failure is reported once and the others run on until told to stop") {
  Supervisor supervisor = running(3);
  supervisor.note_ended(1, exited(5));
  CHECK(decide(supervisor, at(1)) == Words{"failed 1"});
  supervisor.note_ended(2, exited(1));
  CHECK(decide(supervisor, at(2)).empty());
  supervisor.note_stop(SIGTERM, false, at(3));
  CHECK(decide(supervisor, at(3)) == Words{"signal 0 with 15"});
}

TEST_CASE("two failures in one wake-up: a death by signal counts first, then the lower rank") {
  Supervisor by_signal = running(3);
  by_signal.note_ended(0, exited(1));
  by_signal.note_ended(2, killed(SIGSEGV));
  CHECK(decide(by_signal, at(1)) == Words{"failed 2"});

  for (const bool reversed : {false, true}) {
    Supervisor by_rank = running(3);
    by_rank.note_ended(reversed ? 2 : 1, exited(reversed ? 2 : 1));
    by_rank.note_ended(reversed ? 1 : 2, exited(reversed ? 1 : 2));
    CHECK(decide(by_rank, at(1)) == Words{"failed 1"});
  }
}

TEST_CASE("a stop signals main processes only, and kills groups after the grace") {
  Supervisor supervisor = running(2, Milliseconds{500});
  supervisor.note_stop(SIGTERM, false, at(10));
  CHECK(decide(supervisor, at(10)) == Words{"signal 0 with 15", "signal 1 with 15"});
  REQUIRE(supervisor.deadline());
  CHECK(*supervisor.deadline() == at(510));
  supervisor.note_ended(0, killed(SIGTERM));
  CHECK(decide(supervisor, at(20)).empty());
  CHECK(decide(supervisor, at(509)).empty());
  CHECK(decide(supervisor, at(510)) == Words{"kill group 1"});
  supervisor.note_ended(1, killed(SIGKILL));
  CHECK(decide(supervisor, at(511)) == Words{"sweep " + std::to_string(SIGKILL)});
  supervisor.note_descendants(0);
  CHECK(decide(supervisor, at(512)) == Words{"stopped"});
}

TEST_CASE("workers that are stopped (SIGSTOP) are continued after their stop signal, whoever has sent that") {
  const bool by_us = GENERATE(true, false);
  Supervisor supervisor = running(2);
  supervisor.note_ended(1, exited(0));
  supervisor.note_stop(SIGTERM, false, at(0), Supervisor::Delivery::undecided);
  CHECK(supervisor.decide(at(0)).empty());
  supervisor.note_delivery(SIGTERM, by_us);
  std::vector<std::string> words;
  for (const auto& action : supervisor.decide(at(10))) words.push_back(std::visit(Describe{}, action));
  CHECK(words == (by_us ? Words{"signal 0 with 15", "continue 0"} : Words{"continue 0"}));
}

TEST_CASE(
    "shortly before workers are killed it is looked at where they are, and it is known how long they had") {
  Supervisor supervisor = running(2, Milliseconds{30000});
  supervisor.note_stop(SIGUSR1, false, at(0));
  CHECK(decide(supervisor, at(0)) == Words{"signal 0 with 10", "signal 1 with 10"});
  CHECK(supervisor.deadline() == at(28000));
  supervisor.note_ended(1, exited(0));
  CHECK(decide(supervisor, at(28000)) == Words{"look where they are"});
  const auto actions = supervisor.decide(at(30000));
  REQUIRE(actions.size() == 1);
  const auto& kill = std::get<act::KillGroup>(actions[0]);
  CHECK(kill.worker == 0);
  CHECK(kill.signal == SIGUSR1);
  CHECK(kill.after == Milliseconds{30000});
}

TEST_CASE("what workers leave running is stopped after their success, which is to be said then only") {
  for (const int code : {0, 1}) {
    Supervisor supervisor = running(1);
    supervisor.note_ended(0, exited(code));
    bool after_success = false;
    for (const auto& action : supervisor.decide(at(0))) {
      if (const auto* sweep = std::get_if<act::SignalDescendants>(&action))
        after_success = sweep->after_success;
    }
    CHECK(after_success == (code == 0));
  }
}

TEST_CASE("a second stop signal leaves no grace") {
  Supervisor supervisor = running(1, Milliseconds{30000});
  supervisor.note_stop(SIGINT, true, at(0));
  CHECK(decide(supervisor, at(0)) == Words{"signal 0 with 2"});
  supervisor.note_stop(SIGINT, true, at(200));
  CHECK(decide(supervisor, at(200)) == Words{"kill group 0"});
}

TEST_CASE("a worker that SIGKILL does not end is reported once, waited for, and stuck only that long") {
  Supervisor supervisor = running(2, Milliseconds{500});
  supervisor.note_stop(SIGTERM, false, at(0));
  decide(supervisor, at(0));
  CHECK(decide(supervisor, at(500)) == Words{"kill group 0", "kill group 1"});
  supervisor.note_ended(0, killed(SIGKILL));
  REQUIRE(supervisor.deadline());
  CHECK(*supervisor.deadline() == at(500) + k_stuck_after);
  CHECK(decide(supervisor, at(600)).empty());
  CHECK_FALSE(supervisor.stuck());
  CHECK(decide(supervisor, *supervisor.deadline()) == Words{"stuck 1"});
  CHECK(supervisor.stuck());
  CHECK_FALSE(supervisor.idle());
  CHECK_FALSE(supervisor.deadline());
  CHECK(decide(supervisor, at(60000)).empty());
  supervisor.note_ended(1, killed(SIGKILL));
  CHECK_FALSE(supervisor.stuck());
  CHECK(decide(supervisor, at(60001)) == Words{"sweep " + std::to_string(SIGKILL)});
  supervisor.note_descendants(0);
  CHECK(decide(supervisor, at(60002)) == Words{"stopped"});
}

TEST_CASE("a third stop signal does not make a killed worker stuck before its time") {
  Supervisor supervisor = running(1, Milliseconds{30000});
  supervisor.note_stop(SIGINT, false, at(0));
  decide(supervisor, at(0));
  supervisor.note_stop(SIGINT, true, at(200));
  CHECK(decide(supervisor, at(200)) == Words{"kill group 0"});
  supervisor.note_stop(SIGINT, true, at(400));
  CHECK(decide(supervisor, at(400)).empty());
  CHECK(supervisor.deadline() == at(200) + k_stuck_after);
}

TEST_CASE("a stop whose signal the workers may have already waits for that answer and not with the grace") {
  for (const bool pass_on : {false, true}) {
    Supervisor supervisor = running(1, Milliseconds{500});
    supervisor.note_stop(SIGTERM, false, at(0), Supervisor::Delivery::undecided);
    CHECK(decide(supervisor, at(0)).empty());
    CHECK(supervisor.deadline() == at(500));
    supervisor.note_delivery(SIGTERM, pass_on);
    CHECK(decide(supervisor, at(20)) == (pass_on ? Words{"signal 0 with 15"} : Words{}));
    CHECK(decide(supervisor, at(500)) == Words{"kill group 0"});
  }
}

TEST_CASE("a signal that the stop has brought the workers is not passed on again, another one is") {
  Supervisor supervisor = running(1);
  supervisor.note_stop(SIGTERM, false, at(0));
  CHECK(decide(supervisor, at(0)) == Words{"signal 0 with 15"});
  supervisor.note_delivery(SIGTERM, true);
  CHECK(decide(supervisor, at(30)).empty());
  supervisor.note_delivery(SIGINT, true);
  CHECK(decide(supervisor, at(40)) == Words{"signal 0 with 2"});
}

TEST_CASE("a death by a signal that was passed on is asked for and no failure") {
  for (const bool pass_on : {false, true}) {
    Supervisor supervisor = running(2);
    supervisor.note_delivery(SIGINT, pass_on);
    decide(supervisor, at(0));
    supervisor.note_ended(1, killed(SIGINT));
    CHECK(decide(supervisor, at(10)) == Words{"asked by 2"});
  }
  Supervisor through_shell = running(1);
  through_shell.note_delivery(SIGINT, true);
  decide(through_shell, at(0));
  through_shell.note_ended(0, exited(128 + SIGINT));
  CHECK(decide(through_shell, at(10)).front() == "asked by 2");
}

TEST_CASE("other deaths after a signal was passed on stay failures") {
  Supervisor by_other = running(1);
  by_other.note_delivery(SIGINT, true);
  decide(by_other, at(0));
  by_other.note_ended(0, killed(SIGSEGV));
  CHECK(decide(by_other, at(10)).front() == "failed 0");

  Supervisor by_warning = running(1);
  by_warning.note_delivery(SIGUSR1, true);
  decide(by_warning, at(0));
  by_warning.note_ended(0, killed(SIGUSR1));
  CHECK(decide(by_warning, at(10)).front() == "failed 0");
}

TEST_CASE("the keys of a terminal that a worker has end the job") {
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP}) {
    Supervisor supervisor = running(1);
    supervisor.note_terminal();
    supervisor.note_ended(0, killed(signal));
    CHECK(decide(supervisor, at(10)).front() == "asked by " + std::to_string(signal));
  }
  Supervisor terminated = running(1);
  terminated.note_terminal();
  terminated.note_ended(0, killed(SIGTERM));
  CHECK(decide(terminated, at(0)).empty());
  CHECK(decide(terminated, at(100)).front() == "failed 0");
}

TEST_CASE("a death that asks to end is no failure where ddprun is signalled a moment later") {
  Supervisor asked = running(2);
  asked.note_ended(0, killed(SIGTERM));
  asked.note_ended(1, killed(SIGTERM));
  CHECK(decide(asked, at(0)).empty());
  REQUIRE(asked.deadline() == at(100));
  asked.note_stop(SIGTERM, false, at(99), Supervisor::Delivery::undecided);
  CHECK(decide(asked, at(99)) == Words{"sweep 15"});
  asked.note_descendants(0);
  CHECK(decide(asked, at(101)) == Words{"stopped"});

  Supervisor alone = running(2);
  alone.note_ended(0, killed(SIGTERM));
  CHECK(decide(alone, at(0)).empty());
  CHECK(decide(alone, at(100)) == Words{"failed 0"});
}

TEST_CASE("a stop that comes when all workers have succeeded changes nothing") {
  Supervisor supervisor = running(1);
  supervisor.note_ended(0, exited(0));
  CHECK(decide(supervisor, at(0)) == Words{"sweep 15"});
  supervisor.note_stop(SIGTERM, false, at(1), Supervisor::Delivery::undecided);
  supervisor.note_delivery(SIGTERM, true);
  supervisor.note_descendants(0);
  CHECK(decide(supervisor, at(2)) == Words{"succeeded"});
}

TEST_CASE("descendants that ignore SIGTERM get SIGKILL") {
  Supervisor supervisor = running(1);
  supervisor.note_ended(0, exited(0));
  CHECK(decide(supervisor, at(0)) == Words{"sweep 15"});
  supervisor.note_descendants(2);
  CHECK(decide(supervisor, at(1)).empty());
  REQUIRE(supervisor.deadline());
  CHECK(decide(supervisor, *supervisor.deadline()) == Words{"sweep 9"});
  supervisor.note_descendants(0);
  CHECK(decide(supervisor, at(5000)) == Words{"succeeded"});
}

TEST_CASE("a process that even SIGKILL does not end holds nobody for ever") {
  Supervisor supervisor = running(1);
  supervisor.note_ended(0, exited(0));
  Words last;
  for (int second = 0; second < 20 && !supervisor.idle(); ++second) {
    supervisor.note_descendants(1);
    last = decide(supervisor, at(second * 1001));
  }
  CHECK(supervisor.idle());
  CHECK(last == Words{"left behind", "succeeded"});
}

TEST_CASE("other signals are passed to the running main processes") {
  Supervisor supervisor = running(2);
  supervisor.note_ended(0, exited(0));
  supervisor.note_delivery(SIGUSR1, true);
  CHECK(decide(supervisor, at(1)) == Words{"signal 1 with " + std::to_string(SIGUSR1)});
  CHECK(decide(supervisor, at(2)).empty());
}

TEST_CASE("a worker that could not start is a failure like any other") {
  Supervisor supervisor(Milliseconds{1000});
  supervisor.note_start(world_of(2));
  supervisor.decide(k_start);
  supervisor.note_ended(0, {ExitStatus::Kind::not_started, 2, StartStage::exec, false});
  supervisor.note_spawned(1);
  CHECK(decide(supervisor, at(1)) == Words{"failed 0"});
}

TEST_CASE("the next attempt starts from nothing") {
  Supervisor supervisor = running(1);
  supervisor.note_ended(0, exited(1));
  CHECK(decide(supervisor, at(0)) == Words{"failed 0", "sweep 15"});
  supervisor.note_descendants(0);
  CHECK(decide(supervisor, at(1)) == Words{"stopped"});
  supervisor.note_start(world_of(1, 1));
  CHECK(decide(supervisor, at(2)) == Words{"spawn 0"});
  CHECK(supervisor.attempt() == Attempt{1});
  supervisor.note_spawned(0);
  supervisor.note_ended(0, exited(0));
  CHECK(decide(supervisor, at(3)) == Words{"sweep 15"});
  supervisor.note_descendants(0);
  CHECK(decide(supervisor, at(4)) == Words{"succeeded"});
}

TEST_CASE("whatever the order of events, every attempt is reported once and no ended worker is signalled") {
  USUAL_SEED(seed, 1);
  std::mt19937 random(seed);
  for (int round = 0; round < test::rounds(1000); ++round) {
    CAPTURE(round);
    const std::size_t count = 1 + random() % 4;
    Supervisor supervisor = running(static_cast<int>(count), Milliseconds{random() % 50});
    std::set<std::size_t> alive;
    for (std::size_t i = 0; i < count; ++i) alive.insert(i);
    int failures = 0;
    int ends = 0;
    int now = 0;
    for (int step = 0; step < 400 && !supervisor.idle(); ++step) {
      now += static_cast<int>(random() % 20);
      const auto choice = random() % 6;
      if (choice == 0) supervisor.note_stop(SIGTERM, random() % 2 == 0, at(now));
      if (choice == 1) supervisor.note_delivery(random() % 2 == 0 ? SIGUSR1 : SIGTERM, random() % 2 == 0);
      if (choice == 2 && !alive.empty()) {
        const std::size_t worker = *std::next(alive.begin(), static_cast<long>(random() % alive.size()));
        alive.erase(worker);
        supervisor.note_ended(worker, random() % 2 == 0 ? exited(static_cast<int>(random() % 2)) : killed(9));
      }
      if (supervisor.deadline() && random() % 3 == 0) {
        now = std::max(now, static_cast<int>((*supervisor.deadline() - k_start) / Milliseconds{1}));
      }
      for (const auto& action : supervisor.decide(at(now))) {
        if (const auto* kill = std::get_if<act::KillGroup>(&action)) {
          REQUIRE(alive.count(kill->worker) == 1);
          alive.erase(kill->worker);
          supervisor.note_ended(kill->worker, killed(9));
        }
        if (const auto* signal = std::get_if<act::SignalWorker>(&action)) {
          REQUIRE(alive.count(signal->worker) == 1);
        }
        if (std::holds_alternative<act::SignalDescendants>(action)) {
          REQUIRE(alive.empty());
          supervisor.note_descendants(random() % 2);
        }
        failures += std::holds_alternative<act::ReportFailure>(action) ? 1 : 0;
        const bool end = std::holds_alternative<act::ReportSuccess>(action) ||
                         std::holds_alternative<act::ReportStopped>(action);
        ends += end ? 1 : 0;
      }
    }
    CHECK(supervisor.idle());
    CHECK(failures <= 1);
    CHECK(ends == 1);
  }
}
