#include "os/process/helper_child.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "catch.hpp"
#include "os/process/process_table.hpp"
#include "processes.hpp"

using namespace ddprun;
using namespace ddprun::os;
using namespace ddprun::testing;

namespace {

// The next signal it tells; 0 when there is none for a long time.
int told_by(SignalCanary& canary) {
  pollfd look{canary.descriptor().get(), POLLIN, 0};
  if (::poll(&look, 1, 10000) != 1) return 0;
  return canary.read().value_or(0);
}

// The destructor waits for a second only.
void dismiss_and_wait(SignalCanary& canary) {
  const int number = canary.pid();
  const Fd process = open_pidfd(number);
  canary.dismiss();
  wait_until_gone(process);
  reap(number);
}

}  // namespace

TEST_CASE("the canary tells every signal it gets, once, and lives on") {
  SignalCanary canary(ChildGroup::own_session);
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT, SIGCONT, SIGTSTP, SIGTERM}) {
    ::kill(canary.pid(), signal);
    CHECK(told_by(canary) == signal);
    CHECK_FALSE(canary.read());
  }
  CHECK_FALSE(canary.is_behind());
  dismiss_and_wait(canary);
}

TEST_CASE("a canary that could not run yet is known to be behind") {
  SignalCanary canary(ChildGroup::own_session);
  ::kill(canary.pid(), SIGUSR2);
  REQUIRE(told_by(canary) == SIGUSR2);  // it waits for signals by now
  ::kill(canary.pid(), SIGSTOP);
  while (capture_process(canary.pid())->state != 'T') ::usleep(1000);
  ::kill(canary.pid(), SIGUSR1);
  CHECK(canary.is_behind());
  CHECK_FALSE(canary.read());
  ::kill(canary.pid(), SIGCONT);
  CHECK(told_by(canary) == SIGUSR1);
  dismiss_and_wait(canary);
}

TEST_CASE(
    "the canary is where the workers are: in a session of its own, or in ours where one has the terminal") {
  for (const ChildGroup place : {ChildGroup::own_session, ChildGroup::own_group}) {
    SignalCanary canary(place);
    ::kill(canary.pid(), SIGUSR1);
    REQUIRE(told_by(canary) == SIGUSR1);
    const auto process = capture_process(canary.pid());
    REQUIRE(process);
    CHECK(process->group == canary.pid());
    CHECK(process->session == (place == ChildGroup::own_session ? canary.pid() : ::getsid(0)));
    CHECK(process->name == "ddprun-canary");
    dismiss_and_wait(canary);
  }
}

TEST_CASE("a canary that is dismissed ends") {
  SignalCanary canary(ChildGroup::own_session);
  dismiss_and_wait(canary);
}
