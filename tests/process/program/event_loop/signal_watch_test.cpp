// Signals to this process and to its canary, in a real event loop.
#include "event_loop/signal_watch.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "catch.hpp"
#include "os/process/process_table.hpp"
#include "run_until.hpp"

using namespace ddprun;
using namespace ddprun::event_loop;
using lifecycle::SignalLedger;
using lifecycle::SignalWay;

namespace {

struct Watched {
  explicit Watched(const std::vector<int>& signals) : watch(context, signals, os::ChildGroup::own_group) {
    watch.start({[this](const os::SignalEvent& event) { came.push_back(event.number); },
                 [this](const SignalLedger::Verdict& verdict) { verdicts.push_back(verdict); },
                 [this] { ++done; }});
  }
  SignalLedger::Verdict judge(bool maybe_tree) {
    watch.judge(SIGTERM, SignalWay::own, maybe_tree);
    CHECK(verdicts.empty());  // it follows, and does not come before that returns
    REQUIRE(testing::runs_until(context, [this] { return !verdicts.empty(); }));
    CHECK(verdicts.size() == 1);
    return verdicts.front();
  }
  static int canary() {
    for (const os::ProcessEntry& process : os::capture_processes()) {
      if (process.parent == ::getpid() && process.name == "ddprun-canary" && !os::has_ended(process))
        return process.pid;
    }
    return -1;
  }

  boost::asio::io_context context;
  SignalWatch watch;
  std::vector<int> came;
  std::vector<SignalLedger::Verdict> verdicts;
  int done = 0;
};

}  // namespace

TEST_CASE("a signal to this process is told in the event loop, and the round closed once") {
  Watched watched({SIGUSR1, SIGUSR2});
  ::kill(::getpid(), SIGUSR1);
  ::kill(::getpid(), SIGUSR2);
  REQUIRE(testing::runs_until(watched.context, [&] { return watched.done > 0; }));
  CHECK(watched.came == std::vector<int>{SIGUSR1, SIGUSR2});
  CHECK(watched.done == 1);
  CHECK(watched.verdicts.empty());
}

TEST_CASE("a verdict follows the question and does not come before it returns") {
  Watched watched({SIGUSR1});
  watched.watch.note_worker();
  CHECK(watched.judge(/*maybe_tree=*/false) == SignalLedger::Verdict{SIGTERM, true, false});
}

TEST_CASE("a signal that the canary has got too was sent to all, and is not passed on") {
  Watched watched({SIGUSR1});
  const int canary = Watched::canary();
  REQUIRE(canary > 0);
  std::this_thread::sleep_for(SignalLedger::Times{}.start_lag + Milliseconds{50});
  ::kill(canary, SIGTERM);
  CHECK(watched.judge(/*maybe_tree=*/true) == SignalLedger::Verdict{SIGTERM, false, true});
}

TEST_CASE("without its canary a signal is passed on") {
  Watched watched({SIGUSR1});
  const int canary = Watched::canary();
  REQUIRE(canary > 0);
  ::kill(canary, SIGKILL);
  CHECK(watched.judge(/*maybe_tree=*/true).pass_on);
}

TEST_CASE("a watch that has been left calls nothing, and its signals stay blocked") {
  Watched watched({SIGUSR1});
  watched.watch.leave();
  ::kill(::getpid(), SIGUSR1);
  watched.context.restart();
  watched.context.run_for(Milliseconds{50});
  CHECK(watched.came.empty());
  CHECK(watched.done == 0);
  sigset_t pending;
  ::sigpending(&pending);
  CHECK(::sigismember(&pending, SIGUSR1) == 1);
  sigset_t own;  // taken away, as later tests go on with this process
  ::sigemptyset(&own);
  ::sigaddset(&own, SIGUSR1);
  int number = 0;
  ::sigwait(&own, &number);
  ::sigprocmask(SIG_UNBLOCK, &own, nullptr);
}

TEST_CASE("signals that stop the job are those of the option, and SIGTERM in any case") {
  options::Options options;
  CHECK(stop_signals_of(options) == std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  options.stop_signals.value = {SIGUSR2};
  CHECK(stop_signals_of(options) == std::vector<int>{SIGUSR2, SIGTERM});
  CHECK(is_stop_signal(SIGUSR2, options));
  CHECK_FALSE(is_stop_signal(SIGINT, options));
  const auto watched = watched_signals_of(options);
  CHECK(std::ranges::find(watched, SIGUSR2) != watched.end());
  CHECK(std::ranges::find(watched, SIGCHLD) != watched.end());
}

TEST_CASE("a scheduler's daemon above us is no person; a shell or mpiexec stands for one") {
  const os::SignalEvent above{SIGTERM, 1, SI_USER, 0, /*from_above=*/true}, other{SIGTERM, 1, SI_USER, 0};
  CHECK_FALSE(is_from_person(above, facts::Scheduler::slurm));
  CHECK(is_from_person(other, facts::Scheduler::slurm));
  CHECK(is_from_person(above, facts::Scheduler::none));
  CHECK(is_from_person({SIGINT, 0, SI_KERNEL}, facts::Scheduler::slurm));
}
