#include "workers/endings.hpp"

#include "os/clock.hpp"
#include "worker_rig.hpp"

using namespace ddprun;
using namespace ddprun::testing;

namespace {

// Endings that hear of the workers' ends as an agent's do.
struct Ends {
  explicit Ends(WorkerRig& workers)
      : rig(workers),
        endings(
            workers.group, [this] { ++settled; }, false) {
    endings.begin(workers.plan());
  }
  // Tells of the end of a worker that has one.
  void note(std::size_t worker) { endings.note_end(worker, rig.ended.at(worker), os::now()); }
  report::Failure describe(std::size_t worker) {
    std::optional<report::Failure> found;
    endings.when_described(worker, [&](const report::Failure& failure) { found = failure; });
    rig.run_until([&] { return found.has_value(); });
    return *found;
  }
  WorkerRig& rig;
  int settled = 0;
  workers::Endings endings;
};

}  // namespace

TEST_CASE("a worker that failed is described once, for all who ask") {
  WorkerRig rig(2, shell("[ $RANK = 0 ] || exit 9"));
  Ends ends(rig);
  rig.run_to_ends();
  ends.note(0);
  ends.note(1);
  const report::Failure failure = ends.describe(1);
  CHECK(failure.status == exited(9));
  CHECK_FALSE(failure.after_stop);
  CHECK(ends.describe(1) == failure);
  CHECK(ends.endings.settled());
  CHECK(ends.settled == 1);
}

TEST_CASE("ranks that had ended with success before the stop are known, and no others") {
  WorkerRig rig(3, shell("exit $((RANK / 2 * 4))"));
  Ends ends(rig);
  rig.run_to_ends();
  ends.note(1);
  ends.note(2);
  ends.endings.note_stop(os::now());
  ends.note(0);
  CHECK(ends.describe(2).status == exited(4));
  CHECK(ends.endings.finished_ranks() == std::vector<int>{1});
}

TEST_CASE(
    "a worker that ends after the stop has ended by it, and is among those that did not end by themselves") {
  WorkerRig rig(2, shell("echo ready; exec sleep 1000"));
  Ends ends(rig);
  rig.start_all();
  rig.run_until([&] { return rig.heard == 2; });
  ends.endings.note_stop(os::now());
  rig.group.signal(0, SIGTERM);
  rig.group.signal(1, SIGTERM);
  rig.run_until([&] { return rig.ended.size() == 2; });
  ends.note(0);
  ends.note(1);
  CHECK(ends.endings.stopped_ranks() == std::vector<int>{0, 1});
  CHECK(ends.endings.further(std::nullopt).empty());
}

TEST_CASE("a rank that is killed since it does not stop is named with the signal and the time that it had") {
  WorkerRig rig(1, shell("trap '' TERM; echo ready; while :; do sleep 1000; done"));
  Ends ends(rig);
  rig.start_all();
  rig.run_until([&] { return rig.heard == 1; });
  ends.endings.note_stop(os::now());
  ends.endings.note_kill(0, SIGTERM, Milliseconds{30000});
  rig.group.kill_group(0);
  rig.run_until([&] { return rig.ended.contains(0); });
  ends.note(0);
  const std::vector<report::KilledRanks> killed = ends.endings.killed_ranks();
  REQUIRE(killed.size() == 1);
  CHECK(killed[0].signal == SIGTERM);
  CHECK(killed[0].after == Milliseconds{30000});
  CHECK(killed[0].ranks == std::vector<int>{0});
}
