#include "lifecycle/signal_ledger.hpp"

#include <algorithm>
#include <csignal>
#include <random>

#include "catch.hpp"
#include "random_seed.hpp"

using namespace ddprun;
using namespace ddprun::lifecycle;

namespace {

using Verdict = SignalLedger::Verdict;
using Verdicts = std::vector<Verdict>;
constexpr auto k_own = SignalWay::own;
constexpr auto k_front_end = SignalWay::front_end;
constexpr auto k_coordinator = SignalWay::coordinator;

TimePoint at(int milliseconds) { return TimePoint{} + Milliseconds{milliseconds}; }

// Waits 20 ms for the canary, 100 where the sender is above, keeps its word for 200, waits 1000 for the
// scheduler, doubts young workers for 100.
SignalLedger ledger() { return SignalLedger(); }

const Verdict k_pass_on{SIGUSR1, true, false};
const Verdict k_there_already{SIGUSR1, false, true};

}  // namespace

TEST_CASE("a signal that the canary gets too is not passed on, whichever is seen first") {
  SignalLedger signal_first = ledger();
  signal_first.note_signal(SIGUSR1, k_own, false, at(0));
  CHECK(signal_first.decide(at(0)).empty());
  CHECK(signal_first.deadline() == at(20));
  signal_first.note_canary(SIGUSR1, at(19));
  CHECK(signal_first.decide(at(19)) == Verdicts{k_there_already});
  CHECK_FALSE(signal_first.deadline());

  SignalLedger canary_first = ledger();
  canary_first.note_canary(SIGUSR1, at(0));
  CHECK(canary_first.decide(at(0)).empty());
  canary_first.note_signal(SIGUSR1, k_own, false, at(150));
  CHECK(canary_first.decide(at(150)) == Verdicts{k_there_already});
}

TEST_CASE("a signal that the canary does not get is passed on when the wait is over") {
  SignalLedger alone = ledger();
  alone.note_signal(SIGUSR1, k_own, false, at(0));
  CHECK(alone.decide(at(19)).empty());
  CHECK(alone.decide(at(20)) == Verdicts{k_pass_on});
  CHECK(alone.decide(at(500)).empty());

  SignalLedger from_above = ledger();
  from_above.note_signal(SIGUSR1, k_own, true, at(0));
  CHECK(from_above.decide(at(99)).empty());
  CHECK(from_above.decide(at(100)) == Verdicts{k_pass_on});
}

TEST_CASE("the canary's word counts for its own signal, once, and not for long") {
  SignalLedger other = ledger();
  other.note_canary(SIGTERM, at(0));
  other.note_signal(SIGUSR1, k_own, false, at(0));
  CHECK(other.decide(at(20)) == Verdicts{k_pass_on});

  SignalLedger twice = ledger();
  twice.note_canary(SIGUSR1, at(0));
  twice.note_signal(SIGUSR1, k_own, false, at(1));
  twice.note_signal(SIGUSR1, k_own, false, at(2));
  CHECK(twice.decide(at(2)) == Verdicts{k_there_already});
  CHECK(twice.decide(at(22)) == Verdicts{k_pass_on});

  SignalLedger stale = ledger();
  stale.note_canary(SIGUSR1, at(0));
  stale.note_signal(SIGUSR1, k_own, false, at(250));
  CHECK(stale.decide(at(270)) == Verdicts{k_pass_on});
}

TEST_CASE("while the workers are too young for who looks through the tree, signals are passed on") {
  SignalLedger young = ledger();
  young.note_worker(at(0));
  young.note_canary(SIGUSR1, at(99));
  young.note_signal(SIGUSR1, k_own, false, at(99));
  CHECK(young.decide(at(119)) == Verdicts{k_pass_on});
  young.note_canary(SIGUSR1, at(200));
  young.note_signal(SIGUSR1, k_own, false, at(200));
  CHECK(young.decide(at(200)) == Verdicts{k_there_already});
}

TEST_CASE("what another ddprun tells is passed on at once where only that one was signalled") {
  for (const SignalWay way : {k_front_end, k_coordinator}) {
    SignalLedger told = ledger();
    told.note_signal(SIGUSR1, way, false, at(0));
    CHECK(told.decide(at(0)) == Verdicts{k_pass_on});
  }
}

TEST_CASE("where the other's whole tree was signalled the scheduler's own signal is waited for") {
  SignalLedger comes = ledger();
  comes.note_signal(SIGTERM, k_coordinator, true, at(0));
  CHECK(comes.decide(at(0)).empty());
  CHECK(comes.deadline() == at(1000));
  comes.note_signal(SIGTERM, k_own, false, at(400));
  CHECK(comes.deadline() == at(500));
  comes.note_canary(SIGTERM, at(401));
  CHECK(comes.decide(at(401)) == Verdicts{{SIGTERM, false, true}});

  SignalLedger never = ledger();
  never.note_signal(SIGTERM, k_coordinator, true, at(0));
  CHECK(never.decide(at(999)).empty());
  CHECK(never.decide(at(1000)) == Verdicts{{SIGTERM, true, false}});

  // Slurm with proctrack/cgroup: a step's first processes only.
  SignalLedger without_workers = ledger();
  without_workers.note_signal(SIGTERM, k_front_end, true, at(0));
  without_workers.note_signal(SIGTERM, k_own, false, at(100));
  CHECK(without_workers.decide(at(200)) == Verdicts{{SIGTERM, true, false}});
}

TEST_CASE("a signal that comes by several ways is one signal") {
  SignalLedger all = ledger();
  all.note_signal(SIGTERM, k_own, false, at(0));
  all.note_signal(SIGTERM, k_front_end, true, at(5));
  all.note_canary(SIGTERM, at(10));
  CHECK(all.decide(at(10)) == Verdicts{{SIGTERM, false, true}});
  all.note_signal(SIGTERM, k_coordinator, true, at(30));
  CHECK(all.decide(at(2000)).empty());

  SignalLedger told_alone = ledger();
  told_alone.note_signal(SIGUSR1, k_front_end, false, at(0));
  CHECK(told_alone.decide(at(0)) == Verdicts{k_pass_on});
  told_alone.note_signal(SIGUSR1, k_own, false, at(300));
  CHECK(told_alone.decide(at(400)).empty());
}

TEST_CASE("a signal that comes by one way twice is two signals") {
  for (const SignalWay way : {k_own, k_front_end}) {
    SignalLedger twice = ledger();
    twice.note_signal(SIGUSR1, way, false, at(0));
    CHECK(twice.decide(at(20)) == Verdicts{k_pass_on});
    twice.note_signal(SIGUSR1, way, false, at(40));
    CHECK(twice.decide(at(60)) == Verdicts{k_pass_on});
  }
}

TEST_CASE("the same signal much later is another one, whichever way it comes") {
  SignalLedger later = ledger();
  later.note_signal(SIGUSR1, k_front_end, false, at(0));
  CHECK(later.decide(at(0)).size() == 1);
  later.note_signal(SIGUSR1, k_own, false, at(1000));
  CHECK(later.decide(at(1020)) == Verdicts{k_pass_on});
}

// One signal by some of the ways, in any order and with gaps up to the limits: the workers get it exactly
// once.
TEST_CASE("in any order of ways and canary the workers get a signal exactly once") {
  USUAL_SEED(seed, 1);
  std::mt19937 random(seed);
  for (int round = 0; round < test::rounds(1500); ++round) {
    CAPTURE(round);
    const bool tree_here = random() % 2 == 0;
    const bool tree_there = tree_here || random() % 2 == 0;
    struct Event {
      int time;
      int what;  // 0: own, 1: canary, 2: front end, 3: coordinator
    };
    std::vector<Event> events;
    const int hit = static_cast<int>(random() % 500);
    if (tree_here || random() % 2 == 0) events.push_back({hit, 0});
    if (tree_here) events.push_back({hit + static_cast<int>(random() % 198) - 99, 1});
    // What is told without a tree is passed on at once: there the scheduler signals nobody here.
    if (tree_here ? tree_there && random() % 2 == 0 : random() % 2 == 0)
      events.push_back({static_cast<int>(random() % 500), 2});
    if (random() % 2 == 0) events.push_back({static_cast<int>(random() % 500), 3});
    if (events.empty()) continue;
    std::stable_sort(events.begin(), events.end(),
                     [](const Event& one, const Event& other) { return one.time < other.time; });
    SignalLedger every = ledger();
    std::size_t verdicts = 0;
    int passed_on = 0;
    const auto look = [&](int time) {
      for (const Verdict& verdict : every.decide(at(time))) {
        ++verdicts;
        passed_on += verdict.pass_on ? 1 : 0;
      }
    };
    for (const Event& event : events) {
      while (every.deadline() && *every.deadline() < at(event.time))
        look(static_cast<int>((*every.deadline() - at(0)) / Milliseconds{1}));
      if (event.what == 1) every.note_canary(SIGTERM, at(event.time));
      if (event.what == 0) every.note_signal(SIGTERM, k_own, tree_here, at(event.time));
      if (event.what == 2) every.note_signal(SIGTERM, k_front_end, tree_there, at(event.time));
      if (event.what == 3) every.note_signal(SIGTERM, k_coordinator, tree_there, at(event.time));
      look(event.time);
    }
    look(5000);
    CHECK(verdicts == 1);
    CHECK(passed_on + (tree_here ? 1 : 0) == 1);
  }
}
