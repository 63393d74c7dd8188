#include "ddprun/supervise/report.hpp"

#include "catch.hpp"

using namespace ddprun;

namespace {

Cause failed_worker() {
  Cause cause;
  cause.kind = Cause::Kind::worker_failed;
  cause.failure.rank = GlobalRank{3};
  cause.failure.host = "n2";
  cause.failure.pid = 4711;
  cause.failure.program = "python3";
  cause.failure.unix_milliseconds = 86400000;
  cause.failure.status = {ExitStatus::Kind::exited, 1, "", false};
  cause.failure.last_lines = {"step 10", "boom \x1b[31m"};
  return cause;
}

}  // namespace

TEST_CASE("a report names the cause first, then the process and its last lines") {
  CHECK(render_report(failed_worker(), 0) ==
        "rank 3 on n2 exited with code 1\n"
        "  python3, pid 4711, ended 1970-01-02 00:00:00 UTC\n"
        "  its last lines:\n"
        "  | step 10\n"
        "  | boom \\x1b[31m\n");
}

TEST_CASE("the message of an error file replaces the last lines") {
  Cause cause = failed_worker();
  cause.failure.message = "ValueError: bad\nTraceback ...\n";
  CHECK(render_report(cause, 2) ==
        "rank 3 on n2 exited with code 1\n"
        "  python3, pid 4711, ended 1970-01-02 00:00:00 UTC, restart 0 of 2\n"
        "  its error:\n"
        "  | ValueError: bad\n"
        "  | Traceback ...\n");
}

TEST_CASE("of a long error the last lines are shown, with how much was cut") {
  Cause cause = failed_worker();
  for (int line = 0; line < 40; ++line) cause.failure.message += "line\n";
  cause.failure.message += "ValueError: bad";
  const std::string report = render_report(cause, 0);
  // 11 of 41 lines
  CHECK(report.find("  its error:\n  | [... 55 bytes cut]\n  | line\n") != std::string::npos);
  CHECK(report.ends_with("  | ValueError: bad\n"));

  cause.failure.message = "  raise\nValueError: bad\n";
  cause.failure.message_cut = 100000;  // on its way here
  CHECK(render_report(cause, 0).ends_with("  | [... 100000 bytes cut]\n  |   raise\n  | ValueError: bad\n"));
}

TEST_CASE("other causes are one sentence and success is silent") {
  Cause cause;
  CHECK(render_report(cause, 0).empty());
  cause.kind = Cause::Kind::agent_lost;
  cause.detail = "lost n3";
  CHECK(render_report(cause, 0) == "lost n3\n");
}

TEST_CASE("a signal that came while a failed attempt was being stopped does not hide the failed rank") {
  Cause cause = failed_worker();
  cause.kind = Cause::Kind::stopped_by_signal;
  cause.signal = 15;
  cause.host = "n1";
  CHECK(render_report(cause, 2) ==
        "stopped by SIGTERM on n1\n"
        "  before that, rank 3 on n2 exited with code 1\n"
        "  python3, pid 4711, ended 1970-01-02 00:00:00 UTC, restart 0 of 2\n"
        "  its last lines:\n"
        "  | step 10\n"
        "  | boom \\x1b[31m\n");
}

TEST_CASE("a restart says why and which one it is") {
  CHECK(render_restart(failed_worker(), Attempt{1}, 3) ==
        "rank 3 on n2 exited with code 1; starting all workers again (restart 1 of 3)");
}
