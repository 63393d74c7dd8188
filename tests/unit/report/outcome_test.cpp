#include "report/outcome.hpp"

#include <cerrno>
#include <csignal>

#include "catch.hpp"
#include "lifecycle/supervisor.hpp"

using namespace ddprun;
using namespace ddprun::report;

namespace {

Failure failure_with(ExitStatus status) {
  Failure failure;
  failure.rank = GlobalRank{3};
  failure.host = "n2";
  failure.program = "python3";
  failure.status = std::move(status);
  return failure;
}

}  // namespace

TEST_CASE("a failure reads as one sentence with rank, host and cause") {
  CHECK(describe(failure_with({ExitStatus::Kind::exited, 1, {}, false})) ==
        "rank 3 on n2 exited with code 1");
  CHECK(describe(failure_with({ExitStatus::Kind::signalled, SIGSEGV, {}, false})) ==
        "rank 3 on n2 was killed by SIGSEGV");
  CHECK(describe(failure_with({ExitStatus::Kind::signalled, SIGABRT, {}, true})) ==
        "rank 3 on n2 was killed by SIGABRT (core dumped)");
  CHECK(describe(failure_with({ExitStatus::Kind::not_started, ENOENT, StartStage::exec, false})) ==
        "cannot start python3 on n2, rank 3: no such file");
  CHECK(describe(failure_with({ExitStatus::Kind::not_started, EACCES, StartStage::exec, false})) ==
        "cannot start python3 on n2, rank 3: permission denied");
}

TEST_CASE("why a worker was not started is told by the stage that failed") {
  const auto reason = [](int error, StartStage stage) {
    const std::string text = describe(failure_with({ExitStatus::Kind::not_started, error, stage, false}));
    return text.substr(text.find("rank 3: ") + 8);
  };
  CHECK(reason(ENOEXEC, StartStage::exec) ==
        "neither a program nor a script with a #! line (begin it with one, as in #!/bin/sh)");
  CHECK(reason(ENOENT, StartStage::interpreter) == "the interpreter named in its first line does not exist");
  CHECK(reason(EAGAIN, StartStage::process) ==
        "process creation failed: resource temporarily unavailable (the limit of processes, ulimit -u, may "
        "be reached)");
  CHECK(reason(EMFILE, StartStage::process) ==
        "process creation failed: too many open files (raise the limit of open files: ulimit -n)");
  CHECK(reason(ENOENT, StartStage::working_directory) == "working directory: no such file");
  CHECK(reason(EPERM, StartStage::group) == "group: operation not permitted");
  const ExitStatus refused{
      ExitStatus::Kind::not_started, 0, {}, false, "cannot create a pipe: too many open files"};
  CHECK(describe(failure_with(refused)).ends_with("rank 3: cannot create a pipe: too many open files"));
}

TEST_CASE("exit codes follow the first failure and the habits of env(1), timeout(1) and shells") {
  CHECK(exit_code_of(ExitStatus{ExitStatus::Kind::exited, 3, {}, false}) == 3);
  CHECK(exit_code_of(ExitStatus{ExitStatus::Kind::signalled, SIGSEGV, {}, false}) == 139);
  CHECK(exit_code_of(ExitStatus{ExitStatus::Kind::not_started, ENOENT, StartStage::exec, false}) == 127);
  CHECK(exit_code_of(ExitStatus{ExitStatus::Kind::not_started, EACCES, StartStage::exec, false}) == 126);
  CHECK(exit_code_of(ExitStatus{ExitStatus::Kind::not_started, ENOENT, StartStage::interpreter, false}) ==
        127);
  CHECK(exit_code_of(ExitStatus{ExitStatus::Kind::not_started, EAGAIN, StartStage::process, false}) == 125);
  CHECK(exit_code_of(ExitStatus{ExitStatus::Kind::not_started, 0, StartStage::process, false,
                                "cannot create a pipe"}) == 125);

  Cause cause;
  CHECK(exit_code_of(cause) == 0);
  cause.kind = Cause::Kind::worker_failed;
  cause.failure.status = {ExitStatus::Kind::exited, 7, {}, false};
  CHECK(exit_code_of(cause) == 7);
  cause.kind = Cause::Kind::stopped_by_signal;
  cause.signal = SIGTERM;
  CHECK(exit_code_of(cause) == 143);
  cause.kind = Cause::Kind::deadline;
  CHECK(exit_code_of(cause) == 124);
  cause.kind = Cause::Kind::agent_lost;
  CHECK(exit_code_of(cause) == 125);
  cause.kind = Cause::Kind::launcher_failed;
  CHECK(exit_code_of(cause) == 125);
}

TEST_CASE("a cause is described by its own words") {
  Cause cause;
  CHECK(describe(cause) == "all workers succeeded");
  cause.kind = Cause::Kind::stopped_by_signal;
  cause.signal = SIGTERM;
  cause.host = "n1";
  CHECK(describe(cause) == "stopped by SIGTERM on n1");
  cause.kind = Cause::Kind::agent_lost;
  cause.detail = "lost n3";
  CHECK(describe(cause) == "lost n3");
}
