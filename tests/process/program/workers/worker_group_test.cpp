#include "workers/worker_group.hpp"

#include <cerrno>

#include "worker_rig.hpp"

using namespace ddprun;
using namespace ddprun::testing;

TEST_CASE("each worker has its own rank, and its end is told once with its code") {
  WorkerRig rig(3, shell("exit $((RANK * 10 + LOCAL_RANK + WORLD_SIZE))"));
  rig.run_to_ends();
  CHECK(rig.ended == std::map<std::size_t, ExitStatus>{{0, exited(3)}, {1, exited(14)}, {2, exited(25)}});
  rig.group.look_for_ends();
  CHECK(rig.calls == 3);
}

TEST_CASE("a worker's failure has its place and the last lines that it wrote") {
  WorkerRig rig(2, shell("[ $RANK = 0 ] || { echo 'no space left' >&2; exit 7; }"));
  rig.run_to_ends();
  const report::Failure failure = rig.failure_of(1);
  CHECK(failure.host == "n1");
  CHECK(failure.rank == GlobalRank{1});
  CHECK(failure.local_rank == LocalRank{1});
  CHECK(failure.status == exited(7));
  CHECK(failure.program == "sh");
  CHECK(failure.last_lines == std::vector<std::string>{"no space left"});
}

TEST_CASE(
    "output that a process writes after its worker's end does not hold up what is said of the failure") {
  WorkerRig rig(1, shell("echo 'the cause' >&2; sleep 1000 & exit 5"));
  rig.run_to_ends();
  CHECK(rig.failure_of(0).last_lines == std::vector<std::string>{"the cause"});
}

TEST_CASE("a program that is gone ends its worker with why, and the other workers run") {
  WorkerRig rig(2, shell("exit 3"));
  rig.lose_program(0);  // after it was planned: its file system is gone
  rig.run_to_ends();
  CHECK(rig.ended[0].kind == ExitStatus::Kind::not_started);
  CHECK(rig.ended[0].value == ENOENT);
  CHECK(rig.ended[1] == exited(3));
}

TEST_CASE("what a worker has started dies with its group") {
  WorkerRig rig(1, shell("sleep 1000 & sleep 1000 & echo ready; wait"));
  rig.start_all();
  rig.run_until([&] { return rig.heard == 1; });
  rig.group.kill_group(0);
  rig.run_until([&] { return rig.ended.contains(0); });
  CHECK(rig.ended[0] == killed());
  rig.run_until([&] { return rig.group.count_descendants() == 0; });
}

TEST_CASE("a process in a session of its own is found when its worker has ended, and ended") {
  WorkerRig rig(1, shell("setsid sleep 1000 > /dev/null 2>&1 & exit 0"));
  rig.run_to_ends();
  CHECK(rig.ended[0] == exited(0));
  rig.run_until([&] { return rig.group.count_descendants() == 1; });
  CHECK(rig.group.signal_descendants(SIGKILL) == 1);
  rig.run_until([&] { return rig.group.count_descendants() == 0; });
}

TEST_CASE("progress is what a worker of this attempt has noted") {
  WorkerRig rig(1, shell("touch \"$DDPRUN_PROGRESS_FILE\""));
  CHECK_FALSE(rig.group.made_progress());
  rig.run_to_ends();
  CHECK(rig.group.made_progress());
  rig.group.end_attempt();
  rig.begin(Attempt{2});
  CHECK_FALSE(rig.group.made_progress());
}

TEST_CASE("the workers of the next attempt are other processes, whose ends are told too") {
  WorkerRig rig(2, shell("exit $TORCHELASTIC_RESTART_COUNT"));
  rig.run_to_ends();
  rig.group.end_attempt();
  rig.ended.clear();
  rig.begin(Attempt{2});
  rig.run_to_ends();
  CHECK(rig.ended == std::map<std::size_t, ExitStatus>{{0, exited(2)}, {1, exited(2)}});
  CHECK(rig.calls == 4);
}
