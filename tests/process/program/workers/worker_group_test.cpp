#include "workers/worker_group.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>

#include "catch.hpp"
#include "os/find_program.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::workers;

namespace {

constexpr std::chrono::seconds k_deadline{20};

// The workers of one host, each a shell with this script.
class Rig {
 public:
  explicit Rig(int workers, std::vector<std::string> command)
      : plan_(make_plan(workers, std::move(command))),
        group(context_, plan_.node, snapshot_, [this](std::size_t worker, const ExitStatus& status) {
          ++calls;
          ended[worker] = status;
        }) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // as the agent is: what a worker leaves behind becomes our child
    begin(Attempt{1});
  }
  ~Rig() {
    for (std::size_t i = 0; i < size(); ++i) group.kill_group(i);
    group.signal_descendants(SIGKILL);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  void begin(Attempt attempt) {
    plan_.assignment.attempt = attempt;
    group.begin_attempt(std::make_shared<const plan::LaunchPlan>(plan_), "", "");
  }
  void lose_program(std::size_t worker) {
    plan_.planned[worker].command = {"/nonexistent/train"};
    begin(Attempt{1});
  }
  std::size_t size() const { return plan_.planned.size(); }
  void start_all() {
    for (std::size_t i = 0; i < size(); ++i) group.start(i);
  }

  // Serves the workers until `done`; fails the test at the deadline.
  template <class Done>
  void run_until(const Done& done) {
    const auto deadline = std::chrono::steady_clock::now() + k_deadline;
    while (!done()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      context_.restart();
      context_.run_one_for(std::chrono::milliseconds(10));
      group.look_for_ends();
    }
  }
  void run_to_ends() {
    start_all();
    run_until([&] { return ended.size() == size(); });
  }
  report::Failure failure_of(std::size_t worker) {
    std::optional<report::Failure> found;
    group.describe_failure(worker, ended.at(worker),
                           [&](report::Failure failure) { found = std::move(failure); });
    run_until([&] { return found.has_value(); });
    return *found;
  }

 private:
  plan::LaunchPlan make_plan(int workers, std::vector<std::string> command) {
    snapshot_.host.name = "n1";
    snapshot_.environment = {{"PATH", "/usr/bin:/bin"}};
    options::Options options;
    options.workers = options::parse_workers_per_node(std::to_string(workers), "--nproc-per-node");
    options.bind.mode = options::BindMode::none;
    options.no_python = true;
    options.command = std::move(command);
    snapshot_.programs[options.command.front()] =
        os::capture_program(options.command.front(), "/usr/bin:/bin");
    return test::plan_node(snapshot_, options);
  }

  boost::asio::io_context context_;
  facts::Snapshot snapshot_;
  plan::LaunchPlan plan_;

 public:
  std::map<std::size_t, ExitStatus> ended;
  int calls = 0;
  WorkerGroup group;
};

std::vector<std::string> shell(std::string script) { return {"sh", "-c", std::move(script)}; }

ExitStatus exited(int code) { return {ExitStatus::Kind::exited, code}; }
ExitStatus killed() { return {ExitStatus::Kind::signalled, SIGKILL}; }

}  // namespace

TEST_CASE("each worker has its own rank, and its end is told once with its code") {
  Rig rig(3, shell("exit $((RANK * 10 + LOCAL_RANK + WORLD_SIZE))"));
  rig.run_to_ends();
  CHECK(rig.ended == std::map<std::size_t, ExitStatus>{{0, exited(3)}, {1, exited(14)}, {2, exited(25)}});
  rig.group.look_for_ends();
  CHECK(rig.calls == 3);
}

TEST_CASE("a worker's failure has its place and the last lines that it wrote") {
  Rig rig(2, shell("[ $RANK = 0 ] || { echo 'no space left' >&2; exit 7; }"));
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
  Rig rig(1, shell("echo 'the cause' >&2; sleep 1000 & exit 5"));
  rig.run_to_ends();
  CHECK(rig.failure_of(0).last_lines == std::vector<std::string>{"the cause"});
}

TEST_CASE("a program that is gone ends its worker with why, and the other workers run") {
  Rig rig(2, shell("exit 3"));
  rig.lose_program(0);  // after it was planned: its file system is gone
  rig.run_to_ends();
  CHECK(rig.ended[0].kind == ExitStatus::Kind::not_started);
  CHECK(rig.ended[0].value == ENOENT);
  CHECK(rig.ended[1] == exited(3));
}

TEST_CASE("what a worker has started dies with its group") {
  Rig rig(1, shell("sleep 1000 & sleep 1000 & echo \"$$\" > /dev/null; wait"));
  rig.start_all();
  rig.run_until([&] { return rig.group.count_descendants() == 2; });
  rig.group.kill_group(0);
  rig.run_until([&] { return rig.ended.contains(0) && rig.group.count_descendants() == 0; });
  CHECK(rig.ended[0] == killed());
}

TEST_CASE("a process in a session of its own is found when its worker has ended, and ended") {
  Rig rig(1, shell("setsid sleep 1000 > /dev/null 2>&1 & exit 0"));
  rig.run_to_ends();
  CHECK(rig.ended[0] == exited(0));
  rig.run_until([&] { return rig.group.count_descendants() == 1; });
  CHECK(rig.group.signal_descendants(SIGKILL) == 1);
  rig.run_until([&] { return rig.group.count_descendants() == 0; });
}

TEST_CASE("progress is what a worker of this attempt has noted") {
  Rig rig(1, shell("touch \"$DDPRUN_PROGRESS_FILE\""));
  CHECK_FALSE(rig.group.made_progress());
  rig.run_to_ends();
  CHECK(rig.group.made_progress());
  rig.group.end_attempt();
  rig.begin(Attempt{2});
  CHECK_FALSE(rig.group.made_progress());
}

TEST_CASE("the workers of the next attempt are other processes, whose ends are told too") {
  Rig rig(2, shell("exit $TORCHELASTIC_RESTART_COUNT"));
  rig.run_to_ends();
  rig.group.end_attempt();
  rig.ended.clear();
  rig.begin(Attempt{2});
  rig.run_to_ends();
  CHECK(rig.ended == std::map<std::size_t, ExitStatus>{{0, exited(2)}, {1, exited(2)}});
  CHECK(rig.calls == 4);
}
