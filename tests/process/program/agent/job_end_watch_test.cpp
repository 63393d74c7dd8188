// Warning before the end of a job's time, with a scheduler's program of the test.
#include "agent/job_end_watch.hpp"

#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "catch.hpp"
#include "os/clock.hpp"
#include "os/files/temp_dir.hpp"
#include "plan_node.hpp"
#include "run_until.hpp"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::testing;

namespace {

// A job of Slurm whose squeue is this script.
class Job {
 public:
  explicit Job(const std::string& squeue)
      : folder_(std::optional<std::string>{}), path_(std::getenv("PATH")) {
    const std::string program = folder_.path() + "/squeue";
    std::ofstream(program) << "#!/bin/sh\necho asked >> " << asked_file() << "\n" << squeue << "\n";
    ::chmod(program.c_str(), 0755);
    ::setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
    facts::Snapshot snapshot;
    snapshot.host.name = "n1";
    options::Options options;
    options.no_python = true;
    options.command = {"true"};
    options.time_limit.signal =
        sourced(options::SignalBeforeEnd{SIGUSR1, Milliseconds{60'000}}, "--signal-before-end");
    plan::LaunchPlan plan = test::plan_node(snapshot, options);
    test::change_node(plan, [](plan::NodeProposal& node) {
      node.allocation.scheduler.value = facts::Scheduler::slurm;
      node.allocation.job_id.value = "42";
    });
    plans_.node = plan.node;
  }
  ~Job() { ::setenv("PATH", path_.c_str(), 1); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void ends_in(std::chrono::seconds left) {
    plan::NodeProposal node = *plans_.node;
    node.allocation.end_time =
        sourced(std::int64_t{os::unix_milliseconds() / 1000 + left.count()}, "SLURM_JOB_END_TIME");
    plans_.node = std::make_shared<const plan::NodeProposal>(node);
  }
  void begin() {
    watch_.emplace(context_, plans_,
                   JobEndWatch::Hooks{[this](TimePoint end) { ends.push_back(end); },
                                      [this](int signal) { warned.push_back(signal); }});
    watch_->begin();
  }
  template <class Done>
  bool runs_until(const Done& done, std::chrono::milliseconds limit = k_run_limit) {
    return testing::runs_until(context_, done, limit);
  }
  bool was_asked() const { return std::ifstream(asked_file()).good(); }
  JobEndWatch& watch() { return *watch_; }

  std::vector<TimePoint> ends;
  std::vector<int> warned;

 private:
  std::string asked_file() const { return folder_.path() + "/asked"; }

  os::TempDir folder_;
  std::string path_;
  boost::asio::io_context context_;
  Plans plans_;
  std::optional<JobEndWatch> watch_;
};

}  // namespace

TEST_CASE("a time limit that the scheduler shows warns the workers once") {
  Job job("echo '42 42 0:40'");
  job.begin();
  CHECK(job.runs_until([&] { return !job.warned.empty(); }));
  CHECK(job.warned == std::vector<int>{SIGUSR1});
  REQUIRE_FALSE(job.ends.empty());
  CHECK(job.ends.back() - os::now() < std::chrono::seconds(41));
  CHECK(job.watch().warned());
  CHECK_FALSE(job.runs_until([&] { return job.warned.size() > 1; }, Milliseconds{300}));
}

TEST_CASE("the scheduler is asked again before a warning, as the limit may have been changed") {
  Job job("echo '42 42 2:00:00'");
  job.ends_in(std::chrono::seconds(30));
  job.begin();
  CHECK(job.runs_until([&] { return job.ends.size() > 1; }));
  CHECK(job.was_asked());
  CHECK(job.ends.back() - os::now() > std::chrono::minutes(90));
  CHECK(job.warned.empty());
}

TEST_CASE("without an answer the end that the job's variables say counts") {
  Job job("exit 1");
  job.ends_in(std::chrono::seconds(30));
  job.begin();
  CHECK(job.runs_until([&] { return !job.warned.empty(); }));
  CHECK(job.was_asked());
}

TEST_CASE("an unknown end warns nobody, and a watch that has ended asks no more") {
  Job job("echo '42 42 UNLIMITED'");
  job.begin();
  CHECK(job.runs_until([&] { return job.was_asked(); }));
  CHECK_FALSE(job.runs_until([&] { return !job.warned.empty() || !job.ends.empty(); }, Milliseconds{300}));
  Job other("sleep 1; echo '42 42 0:40'");
  other.begin();
  other.watch().end();
  CHECK_FALSE(other.runs_until([&] { return !other.warned.empty(); }, Milliseconds{1500}));
}
