#include "lifecycle/end_watch.hpp"

#include <csignal>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::lifecycle;
using namespace std::chrono_literals;
using enum PendingWarning::Worker;

namespace {

const TimePoint k_start{};
using Workers = std::vector<std::size_t>;

}  // namespace

TEST_CASE("whether a process handles or blocks a signal is read from /proc/PID/status") {
  const std::string status =
      "Name:\tpython3\nSigPnd:\t0000000000000000\nSigBlk:\t0000000000000800\nSigIgn:\t0000000001001000\n"
      "SigCgt:\t0000000000000202\nCapInh:\t0000000000000000\n";
  CHECK(handles_signal(status, SIGINT));
  CHECK(handles_signal(status, SIGUSR1));
  CHECK(handles_signal(status, SIGUSR2));  // blocked
  CHECK_FALSE(handles_signal(status, SIGPIPE));
  CHECK_FALSE(handles_signal(status, SIGTERM));
  CHECK_FALSE(handles_signal("", SIGUSR1));
  CHECK_FALSE(handles_signal("SigCgt:\tzz", SIGUSR1));
  CHECK_FALSE(handles_signal(status, 65));
}

TEST_CASE("each worker is warned once, as soon as it handles the signal") {
  PendingWarning pending;
  pending.begin(3, k_start);
  std::vector states{ready, deaf, gone};
  const auto state = [&](std::size_t worker) { return states[worker]; };
  CHECK(pending.look(state, k_start).send == Workers{0});
  CHECK(pending.deadline() == k_start + 1s);
  CHECK(pending.look(state, k_start + 1s).send.empty());
  states[1] = ready;
  CHECK(pending.look(state, k_start + 2s).send == Workers{1});
  CHECK_FALSE(pending.deadline());
  CHECK(pending.look(state, k_start + 3s).send.empty());
}

TEST_CASE("of workers that do not handle the signal it is said once, after a while") {
  PendingWarning pending;
  pending.begin(2, k_start);
  const auto state = [](std::size_t worker) { return worker == 0 ? ready : deaf; };
  CHECK(pending.look(state, k_start).tell.empty());
  CHECK(pending.look(state, k_start + 15s).tell == Workers{1});
  CHECK(pending.look(state, k_start + 30s).tell.empty());
  pending.end();
  CHECK_FALSE(pending.deadline());
}
