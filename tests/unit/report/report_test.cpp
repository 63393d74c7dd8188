#include "report/report.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::report;

namespace {

Cause failed_worker() {
  Cause cause;
  cause.kind = Cause::Kind::worker_failed;
  cause.failure.rank = GlobalRank{3};
  cause.failure.local_rank = LocalRank{3};
  cause.failure.host = "n2";
  cause.failure.pid = 4711;
  cause.failure.program = "python3";
  cause.failure.unix_milliseconds = 86400000;
  cause.failure.status = {ExitStatus::Kind::exited, 1, {}, false};
  cause.failure.last_lines = {"step 10", "boom \x1b[31m"};
  return cause;
}

}  // namespace

TEST_CASE("a report names the cause first, then the process and its last lines") {
  CHECK(render_report(failed_worker(), {0, 0, {}}) ==
        "rank 3 on n2 exited with code 1\n"
        "  python3, pid 4711, ended 1970-01-02 00:00:00 UTC\n"
        "  its last lines:\n"
        "  | step 10\n"
        "  | boom \\x1b[31m\n");
}

TEST_CASE("a report has what the worker ran with, and no empty lines at the end of its last ones") {
  Cause cause = failed_worker();
  cause.failure.environment = "Python 3.11, torch 2.13.0, NVIDIA H100 80GB HBM3";
  cause.failure.last_lines = {"boom", "", "  "};
  CHECK(render_report(cause, {0, 0, {}}) ==
        "rank 3 on n2 exited with code 1\n"
        "  python3, pid 4711, ended 1970-01-02 00:00:00 UTC\n"
        "  Python 3.11, torch 2.13.0, NVIDIA H100 80GB HBM3\n"
        "  its last lines:\n"
        "  | boom\n");
  cause.failure.last_lines = {"", ""};
  CHECK(render_report(cause, {0, 0, {}}).find("its last lines") == std::string::npos);
}

TEST_CASE("the message of an error file replaces the last lines") {
  Cause cause = failed_worker();
  cause.failure.message = "ValueError: bad\nTraceback ...\n";
  CHECK(render_report(cause, {0, 2, {}}) ==
        "rank 3 on n2 exited with code 1\n"
        "  python3, pid 4711, ended 1970-01-02 00:00:00 UTC\n"
        "  its error:\n"
        "  | ValueError: bad\n"
        "  | Traceback ...\n");
}

TEST_CASE("of a long error the last lines are shown, with how much was cut") {
  Cause cause = failed_worker();
  for (int line = 0; line < 40; ++line) cause.failure.message += "line\n";
  cause.failure.message += "ValueError: bad";
  const std::string report = render_report(cause, {0, 0, {}});
  // 11 of 41 lines
  CHECK(report.find("  its error:\n  | [... 55 bytes cut]\n  | line\n") != std::string::npos);
  CHECK(report.ends_with("  | ValueError: bad\n"));

  cause.failure.message = "  raise\nValueError: bad\n";
  cause.failure.message_cut = 100000;  // on its way here
  CHECK(render_report(cause, {0, 0, {}})
            .ends_with("  | [... 100000 bytes cut]\n  |   raise\n  | ValueError: bad\n"));
}

TEST_CASE("other causes are one sentence and success is silent") {
  Cause cause;
  CHECK(render_report(cause, {0, 0, {}}).empty());
  cause.kind = Cause::Kind::agent_lost;
  cause.detail = "lost n3";
  CHECK(render_report(cause, {0, 0, {}}) == "lost n3\n");
}

TEST_CASE("a signal that came while a failed attempt was being stopped does not hide the failed rank") {
  Cause cause = failed_worker();
  cause.kind = Cause::Kind::stopped_by_signal;
  cause.signal = 15;
  cause.host = "n1";
  CHECK(render_report(cause, {0, 2, {}}) ==
        "stopped by SIGTERM on n1\n"
        "  before that, rank 3 on n2 exited with code 1\n"
        "  python3, pid 4711, ended 1970-01-02 00:00:00 UTC\n"
        "  its last lines:\n"
        "  | step 10\n"
        "  | boom \\x1b[31m\n");
}

TEST_CASE("a restart says why and which one it is") {
  const Failure failure = failed_worker().failure;
  CHECK(render_restart(failure, 1, 3, Milliseconds{0}) ==
        "rank 3 on n2 exited with code 1; starting all workers again (restart 1 of 3)");
  CHECK(render_restart(failure, 2, 3, Milliseconds{4000}) ==
        "rank 3 on n2 exited with code 1; starting all workers again in 4 s (restart 2 of 3)");
}

TEST_CASE("a failure of a restart says which one it was of") {
  Cause cause = failed_worker();
  cause.failure.attempt = Attempt{2};
  const auto has = [&](const UsedRestarts& used, const std::string& end) {
    return render_report(cause, used).find("1970-01-02 00:00:00 UTC, " + end + "\n") != std::string::npos;
  };
  CHECK(has({2, 3, {}}, "restart 2 of 3"));
  CHECK(has({0, 3, {}}, "attempt 2, 0 of 3 restarts used"));  // nodes were lost
}

TEST_CASE("the end says which restarts were made for what, and why there was no other one") {
  Cause cause = failed_worker();
  CHECK(render_restarts({0, 3, {}}, cause).empty());
  UsedRestarts restarts{2, 3, {cause.failure, cause.failure}};
  restarts.causes[1].attempt = Attempt{1};
  restarts.causes[1].rank = GlobalRank{0};
  restarts.causes[1].host = "n1";
  restarts.causes[1].status = {ExitStatus::Kind::signalled, 9, {}, false};
  CHECK(render_restarts(restarts, cause) ==
        "\n  2 of 3 restarts used: rank 3 on n2 exited with code 1 (attempt 0), rank 0 on n1 was killed by "
        "SIGKILL (attempt 1)");
  cause.detail = "exit code 1 is in --no-restart-on";
  CHECK(render_restarts({0, 3, {}}, cause) == "\n  not restarted: exit code 1 is in --no-restart-on");
  cause.kind = Cause::Kind::agent_lost;
  cause.detail = "lost n3";
  CHECK(render_restarts({0, 3, {}}, cause).empty());
}

TEST_CASE("restarts for the same reason are one item, and of many the latest are shown") {
  UsedRestarts restarts{200, 1000, {}};
  for (int attempt = 100; attempt < 200; ++attempt) {
    restarts.causes.push_back(failed_worker().failure);
    restarts.causes.back().attempt = Attempt{attempt};
  }
  CHECK(render_restarts(restarts, {}).empty());  // a success is silent
  CHECK(render_restarts(restarts, failed_worker()) ==
        "\n  200 of 1000 restarts used, at last: rank 3 on n2 exited with code 1 (attempts 100-199)");
  for (int i = 0; i < 100; i += 2) restarts.causes[static_cast<std::size_t>(i)].rank = GlobalRank{1};
  const std::string text = render_restarts(restarts, failed_worker());
  CHECK(text.starts_with(
      "\n  200 of 1000 restarts used, at last: rank 1 on n2 exited with code 1 (attempt 192), "));
  CHECK(text.ends_with(", rank 3 on n2 exited with code 1 (attempt 199)"));
}

TEST_CASE("a report says which GPU, who killed it for memory, where its output is and who was as it") {
  Cause cause = failed_worker();
  cause.failure.local_rank = LocalRank{1};
  cause.failure.gpu = "1";
  cause.failure.status = {ExitStatus::Kind::signalled, 9, {}, false};
  cause.failure.out_of_memory = "the limit of 4.0 GiB of its cgroup was reached";
  cause.failure.log_file = "/logs/rank-00003.err";
  cause.failure.alike = {4, 5, 6, 9};
  cause.failure.last_lines.clear();
  CHECK(render_report(cause, {0, 0, {}}) ==
        "rank 3 on n2 was killed by SIGKILL, out of memory\n"
        "  python3, pid 4711, ended 1970-01-02 00:00:00 UTC, local rank 1, GPU 1\n"
        "  out of memory: the limit of 4.0 GiB of its cgroup was reached\n"
        "  its output is in /logs/rank-00003.err\n"
        "  ranks 4-6,9 ended in the same way\n");
}

TEST_CASE("the victims are one line, and so is each other failure") {
  std::vector<int> victims = {0, 1, 2, 3};
  for (int rank = 5; rank < 512; ++rank) victims.push_back(rank);
  CHECK(render_others({}, victims) == "\n  ranks 0-3,5-511 stopped because of it");
  Failure other = failed_worker().failure;
  other.alike = {7};
  CHECK(render_others({other}, {1}) ==
        "\n  also: rank 3 on n2 exited with code 1, and rank 7 in the same way\n  rank 1 stopped because of "
        "it");
  CHECK(render_others({}, {}).empty());
}

TEST_CASE("of one that ddprun stopped while it was ending, the sentence says so and the code is 1") {
  Cause cause = failed_worker();
  cause.failure.status = {ExitStatus::Kind::signalled, 15, {}, false};
  cause.failure.after_stop = true;
  CHECK(describe(cause) == "rank 3 on n2 failed, and was stopped by SIGTERM before it exited");
  CHECK(exit_code_of(cause) == 1);
}

TEST_CASE("a report says which ranks had ended and which were running when a signal came") {
  CHECK(describe_running({0, 1, 2, 3}, 4) == "all 4 ranks were running");
  CHECK(describe_running({0}, 1) == "rank 0 was running");
  CHECK(describe_running({0, 1, 3}, 8) == "ranks 2,4-7 had ended, ranks 0-1,3 were running");
  CHECK(describe_running({3}, 4) == "ranks 0-2 had ended, rank 3 was running");
}
