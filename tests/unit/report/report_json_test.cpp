#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "report/report.hpp"

using namespace ddprun;
using namespace ddprun::report;
using Json = nlohmann::json;

namespace {

JobEnd failed_job() {
  JobEnd end;
  end.cause.kind = Cause::Kind::worker_failed;
  Failure& failure = end.cause.failure;
  failure.rank = {3};
  failure.local_rank = {1};
  failure.host = "n2";
  failure.pid = 4711;
  failure.gpu = "1";
  failure.status = {ExitStatus::Kind::signalled, 11, {}, true};
  failure.unix_milliseconds = 1500;
  failure.last_lines = {"step 10", "\xff"};
  failure.hint = "do this";
  end.victims = {0, 1, 2};
  end.others = {failure};
  end.job = "7";
  end.host = "n1";
  end.world_size = 4;
  end.nodes = 2;
  end.restarts = 1;
  end.began = 1000;
  end.ended = 2000;
  return end;
}

}  // namespace

TEST_CASE("the report as JSON has the cause with all that is known of it") {
  const Json json = Json::parse(render_report_json(failed_job()));
  CHECK(json["version"] == 1);
  CHECK(json["result"] == "worker_failed");
  CHECK(json["what"] == "rank 3 on n2 was killed by SIGSEGV (core dumped)");
  CHECK(json["exit_code"] == 139);
  CHECK(json["stopped_ranks"] == Json({0, 1, 2}));
  CHECK(json["restarts"] == 1);
  CHECK(json["ended"] == 2.0);
  const Json& failure = json["failure"];
  CHECK(failure["signal"] == "SIGSEGV");
  CHECK(failure["exit_code"].is_null());
  CHECK(failure["core_dumped"] == true);
  CHECK(failure["gpu"] == "1");
  CHECK(failure["time"] == 1.5);
  CHECK(failure["last_lines"] == Json({"step 10", "\xef\xbf\xbd"}));
  CHECK(failure["hint"] == "do this");
  CHECK(json["other_failures"].size() == 1);
}

TEST_CASE("the report as JSON has the restarts, what each was for, and why there was no other one") {
  JobEnd end = failed_job();
  end.max_restarts = 3;
  Failure before = end.cause.failure;
  before.status = {ExitStatus::Kind::exited, 1, {}, false};
  end.restarted = {before};
  end.cause.detail = "exit code 139 is in --no-restart-on";
  const Json json = Json::parse(render_report_json(end));
  CHECK(json["max_restarts"] == 3);
  CHECK(json["restarted_after"] == Json::array({{{"what", "rank 3 on n2 exited with code 1"},
                                                 {"host", "n2"},
                                                 {"rank", 3},
                                                 {"attempt", 0},
                                                 {"time", 1.5},
                                                 {"exit_code", 1},
                                                 {"signal", nullptr}}}));
  CHECK(json["not_restarted"] == "exit code 139 is in --no-restart-on");
  CHECK(Json::parse(render_report_json(failed_job()))["not_restarted"].is_null());
}

TEST_CASE("ranks that were found to hang are in the report, and in its text where the job failed later") {
  JobEnd end = failed_job();
  const Hang hang{1, "n1", 0, 61000, "rank 1 on n1 hangs: it is at train.py:8", "do that"};
  end.hangs = {hang};
  CHECK(Json::parse(render_report_json(end))["hangs"] ==
        Json::array({{{"what", "rank 1 on n1 hangs: it is at train.py:8"},
                      {"host", "n1"},
                      {"rank", 1},
                      {"attempt", 0},
                      {"time", 61.0},
                      {"hint", "do that"}}}));
  CHECK(describe(hang) ==
        "found at 1970-01-01 00:01:01 UTC, after which the job went on: rank 1 on n1 hangs: it is at "
        "train.py:8");
}

TEST_CASE("the report as JSON has the ranks that were killed, how long they had and where they were") {
  JobEnd end = failed_job();
  end.killed = {{{0, 1}, "n1", 15, Milliseconds{30000}, "is at train.py:31 in save"},
                {{2}, "n2", 15, {}, {}}};
  const Json json = Json::parse(render_report_json(end));
  REQUIRE(json["killed_ranks"].size() == 2);
  CHECK(json["killed_ranks"][0]["ranks"] == Json({0, 1}));
  CHECK(json["killed_ranks"][0]["host"] == "n1");
  CHECK(json["killed_ranks"][0]["signal"] == "SIGTERM");
  CHECK(json["killed_ranks"][0]["seconds"] == 30.0);
  CHECK(json["killed_ranks"][0]["place"] == "is at train.py:31 in save");
  CHECK(json["killed_ranks"][0]["what"] ==
        "ranks 0-1 on n1 were killed 30 s after SIGTERM; rank 0 was at train.py:31 in save");
  CHECK(json["killed_ranks"][1]["place"].is_null());
}

TEST_CASE("the report of a success has no failure") {
  const Json json = Json::parse(render_report_json({}));
  CHECK(json["result"] == "succeeded");
  CHECK(json["exit_code"] == 0);
  CHECK(json["failure"].is_null());
  CHECK(json["not_restarted"].is_null());
  CHECK(json["restarted_after"].empty());
}

TEST_CASE("the error file for a launcher around ddprun has the worker's own error, as torchrun's") {
  JobEnd end = failed_job();
  const auto message = [&](const std::string& traceback) {
    end.cause.failure.message = traceback;
    return Json::parse(render_error_file(end.cause))["message"]["message"].get<std::string>();
  };
  const std::string frames =
      "Traceback (most recent call last):\n  File \"run.py\", line 3, in f\n    g()\n    ^^^\n"
      "  File \"run.py\", line 9, in g\n    raise ValueError()\n";
  CHECK(message(frames + "ValueError: recorded by rank 0: boom\n") == "ValueError: recorded by rank 0: boom");
  CHECK(message(frames + "torch.distributed.DistBackendError: NCCL a.b\nsecond line\n") ==
        "DistBackendError: NCCL a.b\nsecond line");
  CHECK(message(frames + "KeyError\n") == "KeyError");
  CHECK(message("ValueError: no frames") == "ValueError: no frames");
  CHECK(message("") == "rank 3 on n2 was killed by SIGSEGV (core dumped)");
}

TEST_CASE("the error file for a launcher around ddprun is one that torch and ddprun read") {
  JobEnd end = failed_job();
  end.cause.failure.message = "Traceback ...\nValueError: bad";
  const std::string text = render_error_file(end.cause);
  CHECK(parse_error_file(text) == "Traceback ...\nValueError: bad");
  const Json message = Json::parse(text)["message"];
  CHECK(message["errorCode"] == 139);
  CHECK(message["extraInfo"]["timestamp"] == "1");
}

TEST_CASE("the error file of a job that ddprun could not start has its sentence and its hint") {
  const Cause cause{Cause::Kind::launcher_failed, {}, 0, {}, "unknown option --nnode-typo", "see --help"};
  CHECK(Json::parse(render_error_file(cause))["message"]["message"] ==
        "unknown option --nnode-typo\nhint: see --help");
}
