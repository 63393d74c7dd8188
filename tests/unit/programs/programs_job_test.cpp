#include "programs/programs_job.hpp"

#include "base/error.hpp"
#include "catch.hpp"
#include "programs/programs_report.hpp"

using namespace ddprun;
using namespace ddprun::programs;
using options::OnExit;
using std::chrono::seconds;

namespace {

Program program(const std::string& name, OnExit on_exit, std::vector<std::string> after = {}) {
  Program made;
  made.name = name;
  made.on_exit = on_exit;
  made.after = std::move(after);
  made.ready_timeout = 60'000;
  return made;
}

std::vector<Order> start(int number, int attempt = 0) { return {{Doing::start, number, attempt, 0}}; }
std::vector<Order> stop(int number, int attempt = 0) { return {{Doing::stop, number, attempt, 0}}; }
std::vector<Order> end(int code) { return {{Doing::end, 0, 0, code}}; }

// A job of a trainer on two nodes that needs a server on a third.
struct Rig {
  std::vector<Program> programs{program("train", OnExit::job, {"server"}),
                                program("server", OnExit::restart)};
  std::vector<std::vector<int>> nodes{{0, 1}, {2}};
  TimePoint now{seconds(1000)};
  std::optional<ProgramsJob> job;
  std::vector<std::string> said;

  std::vector<Order> take(const JobActions& actions) {
    for (const Say& each : actions.sentences) said.push_back(each.what);
    return actions.orders;
  }
  std::vector<Order> begin() {
    job.emplace(PlacedPrograms{programs, nodes, {}}, std::vector<std::string>{"n1", "n2", "n3"});
    return take(job->start(now));
  }
  std::vector<Order> ended(int node, int program, int code, int attempt = 0) {
    return take(job->on_news({News::ended, node, program, attempt, code}, now));
  }
  std::vector<Order> ready(int node, int program, int attempt = 0) {
    return take(job->on_news({News::ready, node, program, attempt, 0}, now));
  }
  std::vector<Order> gone(int node) { return take(job->on_news({News::gone, node, 0, 0, 0}, now)); }
  std::vector<Order> after(seconds time) {
    now += time;
    return take(job->on_time(now));
  }
  void run_both() {
    CHECK(begin() == start(1));
    CHECK(ready(2, 1) == start(0));
  }
};

}  // namespace

TEST_CASE("a program starts once those that it needs are ready") {
  Rig rig;
  CHECK(rig.begin() == start(1));
  CHECK(rig.job->state_of(0) == "waiting");
  CHECK(rig.job->state_of(1) == "running");
  CHECK(rig.ready(2, 1, 7).empty());  // of another attempt
  CHECK(rig.ready(2, 1) == start(0));
  CHECK(rig.ready(2, 1).empty());
  CHECK(rig.job->state_of(1) == "ready");
}

TEST_CASE("any node of a program says that it is ready") {
  Rig rig;
  rig.nodes = {{0}, {1, 2}};
  rig.begin();
  CHECK(rig.ready(2, 1) == start(0));
}

TEST_CASE("the nodes on which a program is ready are known at any time") {
  Rig rig;
  rig.nodes = {{0}, {1, 2}};
  rig.begin();
  rig.ready(1, 1);
  CHECK(rig.job->ready_nodes(1) == std::set<int>{1});
  CHECK(rig.job->on_news({News::not_ready, 1, 1, 0, 0}, rig.now).changed);
  CHECK(rig.job->ready_nodes(1).empty());
  rig.ready(2, 1);
  CHECK(rig.job->state_of(1) == "ready");
  rig.gone(2);
  CHECK(rig.job->ready_nodes(1).empty());
}

TEST_CASE("what a program waits for is said, and the job ends when that takes too long") {
  Rig rig;
  rig.programs[1].ready = "8000";
  rig.begin();
  CHECK(rig.job->deadline() == rig.now + seconds(30));
  CHECK(rig.after(seconds(30)).empty());
  CHECK(rig.said ==
        std::vector<std::string>{
            "train waits for server to be ready, for 30 s so far: its port 8000 does not answer"});
  rig.said.clear();
  CHECK(rig.after(seconds(30)) == stop(1));
  CHECK(rig.said ==
        std::vector<std::string>{
            "train was not started: server was not ready within 60 s: its port 8000 does not answer",
            "the job ends; stopping server"});
  CHECK(rig.ended(2, 1, 143) == end(k_exit_deadline));
}

TEST_CASE("the end of the first program is the job's, with its code, and the others are stopped") {
  for (const int code : {0, 3}) {
    Rig rig;
    rig.run_both();
    CHECK(rig.ended(0, 0, code).empty());
    CHECK(rig.job->is_awaited(1));
    CHECK_FALSE(rig.job->is_awaited(2));
    CHECK(rig.ended(1, 0, code) == stop(1));
    CHECK(rig.said ==
          std::vector<std::string>{"train ended with code " + std::to_string(code) + "; stopping server"});
    CHECK(rig.ended(2, 1, 143) == end(code));
    CHECK(rig.job->over());
  }
}

TEST_CASE("a program that is to be restarted starts again alone, and later where it ends at once") {
  Rig rig;
  rig.run_both();
  rig.after(seconds(20));
  CHECK(rig.ended(2, 1, 137) == start(1, 1));
  CHECK(rig.said.back() == "server ended with code 137; it starts again (number 1)");
  CHECK(rig.ended(2, 1, 137).empty());          // said again of the former attempt
  CHECK(rig.ended(2, 1, 0, 1) == start(1, 2));  // the first one that ends at once
  CHECK(rig.ended(2, 1, 1, 2).empty());
  CHECK(rig.said.back() == "server ended with code 1; it starts again in 1 s (number 3)");
  CHECK(rig.after(seconds(1)) == start(1, 3));
  CHECK(rig.job->state_of(0) == "running");
  CHECK(rig.job->attempt_of(1) == 3);
}

TEST_CASE("a program that cannot be started at all is not started again") {
  for (const int code : {2, 126, 127}) {
    Rig rig;
    rig.begin();
    CHECK(rig.ended(2, 1, code) == end(code));
  }
  Rig late;
  late.run_both();
  CHECK(late.ended(2, 1, 2) == start(1, 1));  // was ready before
}

TEST_CASE("a program that waits to start again is not waited for at the end") {
  Rig rig;
  rig.run_both();
  rig.ended(2, 1, 1);
  rig.ended(2, 1, 1, 1);
  rig.ended(0, 0, 0);
  CHECK(rig.ended(1, 0, 0) == end(0));
}

TEST_CASE("a failure of another program is the job's, unless it is to be ignored") {
  Rig rig;
  rig.programs[1].on_exit = OnExit::fail;
  rig.run_both();
  CHECK(rig.ended(2, 1, 9) == stop(0));
  CHECK(rig.said == std::vector<std::string>{"server ended with code 9; stopping train"});
  rig.ended(0, 0, 143);
  CHECK(rig.ended(1, 0, 143) == end(9));
  Rig other;
  other.programs[1].on_exit = OnExit::ignore;
  other.run_both();
  CHECK(other.ended(2, 1, 9).empty());
  other.ended(0, 0, 0);
  CHECK(other.ended(1, 0, 0) == end(0));
}

TEST_CASE(
    "a program that ends with 0 is as good as ready, and one that fails before leaves nothing to wait for") {
  Rig rig;
  rig.programs[1].on_exit = OnExit::fail;
  rig.begin();
  CHECK(rig.ended(2, 1, 0) == start(0));
  Rig other;
  other.programs[1].on_exit = OnExit::ignore;
  other.begin();
  CHECK(other.ended(2, 1, 4) == end(4));
  CHECK(other.said ==
        std::vector<std::string>{"train cannot start: server ended with code 4 before it was ready"});
}

TEST_CASE("a signal stops first those that others do not need") {
  Rig rig;
  rig.run_both();
  CHECK(rig.take(rig.job->on_stop()) == stop(0));
  CHECK(rig.take(rig.job->on_stop()).empty());
  CHECK(rig.ended(0, 0, 143).empty());
  CHECK(rig.ended(1, 0, 143) == stop(1));
  CHECK(rig.ended(2, 1, 143) == end(0));
  CHECK(rig.said.empty());  // its launcher says by which
}

TEST_CASE("a signal before all programs have started stops those that run") {
  Rig rig;
  rig.begin();
  CHECK(rig.take(rig.job->on_stop()) == stop(1));
  CHECK(rig.ready(2, 1).empty());
  CHECK(rig.ended(2, 1, 143) == end(0));
}

TEST_CASE("nodes that are gone are not waited for") {
  Rig rig;
  rig.programs[1].on_exit = OnExit::ignore;
  rig.run_both();
  CHECK(rig.gone(1).empty());  // its program may have a spare
  CHECK(rig.ended(0, 0, 125) == stop(1));
  CHECK(rig.gone(2) == end(125));
}

TEST_CASE("a program all of whose nodes are gone cannot start again, and is the job's failure") {
  Rig rig;
  rig.run_both();
  CHECK(rig.gone(2) == stop(0));
  CHECK(rig.said ==
        std::vector<std::string>{"lost n3, on which server ran: it gives no sign any more",
                                 "server cannot start again, as its node is lost; stopping train"});
  rig.ended(0, 0, 143);
  CHECK(rig.ended(1, 0, 143) == end(k_exit_own_failure));
}

TEST_CASE("a program whose node has gone before its start fails at once") {
  Rig rig;
  rig.programs[0].on_exit = OnExit::fail;
  rig.nodes = {{1}, {0}};
  rig.begin();
  CHECK(rig.gone(1).empty());
  const std::vector<Order> orders = rig.ready(0, 1);
  CHECK(orders == std::vector<Order>{{Doing::start, 0, 0, 0}, {Doing::stop, 1, 0, 0}});
  CHECK(rig.ended(0, 1, 143) == end(k_exit_own_failure));
}

TEST_CASE("a job whose programs have all ended ends") {
  Rig rig;
  rig.programs = {program("a", OnExit::fail), program("b", OnExit::ignore)};
  rig.nodes = {{0}, {1}};
  CHECK(rig.begin().size() == 2);
  CHECK(rig.ended(1, 1, 5).empty());
  CHECK(rig.ended(0, 0, 0) == end(0));
}

namespace {

// A trainer, and two replicas of a server.
Rig replicas(OnExit server, OnExit train = OnExit::fail) {
  Rig rig;
  rig.programs = {program("train", train), program("server", server), program("server", server)};
  for (int number = 0; number < 2; ++number) {
    rig.programs[static_cast<std::size_t>(1 + number)].replica = number;
    rig.programs[static_cast<std::size_t>(1 + number)].replicas = 2;
  }
  rig.nodes = {{0}, {1}, {2}};
  return rig;
}

}  // namespace

TEST_CASE("a replica starts again alone, and a program that needs them waits for all") {
  Rig rig = replicas(OnExit::restart);
  rig.programs[0].after = {"server"};
  rig.begin();
  CHECK(rig.ready(1, 1).empty());
  CHECK(rig.ready(2, 2) == start(0));
  rig.now += seconds(20);
  CHECK(rig.ended(2, 2, 137) == start(2, 1));
  CHECK(rig.said == std::vector<std::string>{"server 1 ended with code 137; it starts again (number 1)"});
}

TEST_CASE("the loss of a replica's node ends the job only with the last of them") {
  Rig rig = replicas(OnExit::restart);
  rig.begin();
  CHECK(rig.gone(1).empty());
  CHECK(rig.gone(2) == stop(0));
  CHECK(rig.said.back() == "server cannot start again, as its node is lost; stopping train");
}

TEST_CASE("replicas of the program with which the job ends have all to end, or one has to fail") {
  Rig rig = replicas(OnExit::job);
  rig.begin();
  CHECK(rig.ended(1, 1, 0).empty());
  CHECK(rig.ended(2, 2, 0) == stop(0));
  Rig other = replicas(OnExit::job);
  other.begin();
  CHECK(other.ended(2, 2, 7) == std::vector<Order>{{Doing::stop, 0, 0, 0}, {Doing::stop, 1, 0, 0}});
  CHECK(other.said == std::vector<std::string>{"server 1 ended with code 7; stopping train, server"});
}

TEST_CASE("the report of all programs says which failed first, and what was stopped for it") {
  Rig rig = replicas(OnExit::fail, OnExit::job);
  rig.begin();
  const TimePoint began = rig.now;
  rig.now += seconds(20);
  rig.ended(2, 2, 9);
  rig.now += seconds(1);
  rig.ended(0, 0, 143);
  CHECK(rig.ended(1, 1, 143) == end(9));
  const auto report = nlohmann::json::parse(render_programs_report(
      *rig.job, {{{0, R"({"result":"stopped"})"}, {1, "torn {"}}, 9, 0, began, rig.now, 1'000'000}));
  CHECK(report["result"] == "program_failed");
  CHECK(report["what"] == "server 1 ended with code 9");
  CHECK(report["first_failure"]["program"] == "server 1");
  CHECK(report["first_failure"]["seconds"] == 20.0);
  CHECK(report["began"] == 979.0);
  CHECK(report["ends"].size() == 3);
  CHECK(report["ends"][1]["stopped"] == true);
  CHECK(report["programs"][0]["report"]["result"] == "stopped");
  CHECK(report["programs"][1]["report"].is_null());
  CHECK(report["programs"][2]["hosts"] == nlohmann::json{"n3"});
  CHECK(report["lost_nodes"].empty());
}

TEST_CASE("the report of a job that a signal has stopped names it, and lost nodes") {
  Rig rig;
  rig.run_both();
  rig.gone(1);
  rig.take(rig.job->on_stop());
  rig.ended(0, 0, 143);
  CHECK(rig.ended(2, 1, 143) == end(0));
  const auto report =
      nlohmann::json::parse(render_programs_report(*rig.job, {{}, 143, 15, rig.now, rig.now, 1000}));
  CHECK(report["result"] == "stopped_by_signal");
  CHECK(report["signal"] == 15);
  CHECK(report["what"] == "stopped by SIGTERM");
  CHECK(report["first_failure"].is_null());
  CHECK(report["lost_nodes"] == nlohmann::json{"n2"});
}
