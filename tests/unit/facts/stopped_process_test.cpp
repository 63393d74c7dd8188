#include "facts/stuck_process.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;
using namespace std::chrono_literals;

namespace {

const TimePoint k_start{1000s};

// Looks when it wants to be looked at, and says after how long it told.
std::optional<Milliseconds> told_after(StoppedProcess& watch, char state, Milliseconds most) {
  for (TimePoint now = k_start; now <= k_start + most; now = watch.next_look()) {
    watch.note(state, 7, now);
    if (watch.takes_telling()) return std::chrono::floor<Milliseconds>(now - k_start);
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("a process in state T or D for half a minute is told once, a sleeping one never") {
  for (const char state : {'T', 'D'}) {
    StoppedProcess watch;
    CHECK(told_after(watch, state, 60s) == 30s);
    CHECK_FALSE(watch.takes_telling());
  }
  StoppedProcess watch;
  CHECK_FALSE(told_after(watch, 'S', 600s));
}

TEST_CASE("a process that has run meanwhile waits in the kernel anew") {
  StoppedProcess watch;
  std::uint64_t ticks = 0;
  for (TimePoint now = k_start; now < k_start + 120s; now = watch.next_look()) {
    watch.note('D', ++ticks, now);
    CHECK_FALSE(watch.takes_telling());
    CHECK_FALSE(watch.is_held());
  }
}

TEST_CASE("it is held after five seconds, in which it is looked at every second") {
  StoppedProcess watch;
  watch.note('S', 1, k_start);
  CHECK(watch.next_look() == k_start + 10s);
  watch.note('T', 1, k_start + 10s);
  CHECK(watch.next_look() == k_start + 11s);
  for (int second = 11; second < 15; ++second) watch.note('T', 1, k_start + std::chrono::seconds(second));
  CHECK_FALSE(watch.is_held());
  watch.note('T', 1, k_start + 15s);
  CHECK(watch.is_held());
  watch.note('S', 1, k_start + 16s);
  CHECK_FALSE(watch.is_held());
}

TEST_CASE("what passed while the one that looks was stopped itself does not count") {
  StoppedProcess watch;
  watch.note('T', 1, k_start);
  watch.note('T', 1, k_start + 1h);
  CHECK_FALSE(watch.is_held());
  CHECK_FALSE(watch.takes_telling());
}

TEST_CASE("a ddprun that does not run is named with its host, pid and state, and what continues it") {
  StuckProcess process{4711, "ddprun", 'T', "do_signal_stop", 0, {}};
  CHECK(describe_stopped(process, "n2", 30s) ==
        "ddprun on n2 (pid 4711) has been stopped (state T) for 30 s");
  CHECK(hint_for_stopped(process, "n2") == "`kill -CONT 4711` on n2 continues it");
  process.state = 'D';
  process.wait_channel = "nfs_wait_bit_killable";
  CHECK(describe_stopped(process, "n2", 31500ms) ==
        "ddprun on n2 (pid 4711) has been waiting in the kernel (state D) in nfs_wait_bit_killable for 31 s");
  CHECK(hint_for_stopped(process, "n2") == "a file system or a driver does not answer; see dmesg on n2");
}
