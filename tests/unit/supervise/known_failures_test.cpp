#include "ddprun/supervise/known_failures.hpp"

#include <csignal>
#include <fstream>

#include "catch.hpp"
#include "ddprun/supervise/report.hpp"
#include "test_paths.hpp"

using namespace ddprun;

namespace {

// The last lines of a worker of torch 2.13, as the report of a run had them.
Failure recorded(const std::string& name) {
  std::ifstream file(std::string(DDPRUN_TEST_DATA) + "/failures/" + name + ".txt");
  REQUIRE(file);
  Failure failure;
  failure.host = "n1";
  failure.program = "python3";
  failure.status = {ExitStatus::Kind::exited, 1, "", false};
  for (std::string line; std::getline(file, line);) failure.last_lines.push_back(line);
  return failure;
}

}  // namespace

TEST_CASE("a script that spawns ranks of its own is told to start one worker a node") {
  const std::string hint = find_failure_hint(recorded("spawned-ranks"), 2);
  CHECK(
      hint ==
      "if the script starts ranks itself (torch.multiprocessing.spawn), ddprun must not start several: give "
      "--nproc-per-node 1, or leave out spawn() and take RANK, LOCAL_RANK and WORLD_SIZE from the "
      "environment");
  CHECK(find_failure_hint(recorded("spawned-ranks"), 1).empty());  // nothing collides there
}

TEST_CASE("an exception in the error file counts as well") {
  Failure failure;
  failure.message = "Traceback ...\ntorch.multiprocessing.spawn.ProcessExitedException: process 1 terminated";
  CHECK_FALSE(find_failure_hint(failure, 2).empty());
}

TEST_CASE("torch's abort at exit is explained") {
  Failure failure = recorded("abort-at-exit");
  failure.status = {ExitStatus::Kind::signalled, SIGABRT, "", false};
  CHECK(find_failure_hint(failure, 1) ==
        "torch aborts when Python exits while a thread of gloo still holds the tensors of a collective: call "
        "torch.distributed.destroy_process_group() at the end of the script, release the DDP model before, "
        "and import "
        "torch.distributed.nn before init_process_group(), since an optimizer that imports it later keeps "
        "the group");
  failure.last_lines.emplace_back("and then something else");
  CHECK(find_failure_hint(failure, 1).empty());
}

TEST_CASE("of an unknown failure nothing is said") {
  Failure failure;
  failure.last_lines = {"ValueError: bad"};
  CHECK(find_failure_hint(failure, 8).empty());
}

TEST_CASE("the report prints the hint under the failure") {
  Cause cause;
  cause.kind = Cause::Kind::worker_failed;
  cause.failure = recorded("abort-at-exit");
  cause.failure.hint = "do this";
  CHECK(render_report(cause, 0) ==
        "rank 0 on n1 exited with code 1\n"
        "  python3\n"
        "  its last lines:\n"
        "  | step 2: loss 0.31\n"
        "  | terminate called without an active exception\n"
        "  hint: do this\n");
}
