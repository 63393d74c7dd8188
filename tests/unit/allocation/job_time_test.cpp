#include "allocation/schedulers/job_end.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.hpp"
#include "catch.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::allocation;
using facts::Scheduler;

namespace {

std::string read_shown(const std::string& name) {
  std::ifstream file(DDPRUN_TEST_DATA "/job_times/" + name);
  REQUIRE(file);
  std::stringstream text;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#')) text << line << '\n';
  }
  return text.str();
}

Allocation in_job(Scheduler scheduler, const std::string& job) {
  Allocation allocation;
  allocation.scheduler.value = scheduler;
  allocation.job_id.value = job;
  return allocation;
}

std::optional<std::int64_t> left(Scheduler scheduler, const std::string& shown,
                                 const std::string& job = "2") {
  return parse_time_left(
      in_job(scheduler, job), shown, [](const std::string& date) -> std::optional<std::int64_t> {
        return date == "Thu Nov 26 23:37:52 2026" ? std::optional<std::int64_t>(5) : std::nullopt;
      });
}

}  // namespace

TEST_CASE("how long a job may still run is read from what the scheduler's program shows") {
  CHECK(left(Scheduler::slurm, read_shown("slurm-limit.txt")) == 60);
  CHECK_FALSE(left(Scheduler::slurm, read_shown("slurm-unlimited.txt")));
  CHECK_FALSE(left(Scheduler::slurm, read_shown("slurm-unknown-job.txt")));
  CHECK(left(Scheduler::slurm, "2 2 1-02:03:04\n") == 93784);
  CHECK(left(Scheduler::pbs, read_shown("pbs-limit.txt")) == 15);
  CHECK_FALSE(left(Scheduler::pbs, "qstat: Unknown Job Id 1.ctl\n"));
  CHECK(left(Scheduler::lsf, "1:30 L\n") == 5400);
  CHECK(left(Scheduler::lsf, "0:10 X\n") == 600);
  CHECK_FALSE(left(Scheduler::lsf, "1:30 E\n"));
  CHECK_FALSE(left(Scheduler::lsf, "-\n"));
  CHECK(left(Scheduler::flux, "3599\n") == 3599);
  CHECK_FALSE(left(Scheduler::flux, "4294967295\n"));
  CHECK_FALSE(left(Scheduler::none, "10"));
}

TEST_CASE(
    "of an array's elements this one's time limit counts, of a heterogeneous job's components the first") {
  const std::string array = read_shown("slurm-array.txt");
  CHECK(left(Scheduler::slurm, array, "1") == 597);
  CHECK(left(Scheduler::slurm, array, "2") == 297);
  CHECK_FALSE(left(Scheduler::slurm, array, "19"));
  CHECK(left(Scheduler::slurm, read_shown("slurm-components.txt"), "5") == 296);
  CHECK(left(Scheduler::slurm, "5 5+0 UNLIMITED\n6 5+1 10:00\n", "5") == 600);
}

TEST_CASE("no scheduler's program is asked outside a job") {
  CHECK(time_question(in_job(Scheduler::slurm, "29")) ==
        std::vector<std::string>{"squeue", "-h", "-j", "29", "-o", "%A %i %L"});
  CHECK(time_question(in_job(Scheduler::pbs, "1[4].ctl")) ==
        std::vector<std::string>{"qstat", "-f", "1[4].ctl"});
  CHECK(time_question(in_job(Scheduler::slurm, "")).empty());
  CHECK(time_question(in_job(Scheduler::manual, "29")).empty());
  CHECK(job_question(in_job(Scheduler::slurm, "29")) ==
        std::vector<std::string>{"scontrol", "show", "job", "29"});
  CHECK(job_question(in_job(Scheduler::pbs, "1[4].ctl")) ==
        std::vector<std::string>{"qstat", "-f", "1[4].ctl"});
  CHECK(job_question(in_job(Scheduler::slurm, "")).empty());
  CHECK(job_question(in_job(Scheduler::lsf, "29")).empty());
}

TEST_CASE("how often PBS has started a job before is one less than its run_count") {
  const auto restarts = [](const std::string& shown) {
    return parse_shown_job(in_job(Scheduler::pbs, "1[4].ctl"), shown)->restarts;
  };
  CHECK(restarts(read_shown("pbs-limit.txt")) == 0);
  CHECK(restarts("    run_count = 4\n") == 3);
  CHECK_FALSE(restarts("    run_count = 0\n"));
  CHECK_FALSE(restarts(""));
  CHECK(parse_shown_job(in_job(Scheduler::pbs, "1[4].ctl"), "")->name == "1[4].ctl");
}

TEST_CASE("a job is requeued by the name that means it alone") {
  const auto shown = [](const std::string& file, const std::string& job) {
    return parse_shown_job(in_job(Scheduler::slurm, job), read_shown(file));
  };
  CHECK(shown("slurm-array-shown.txt", "1")->name == "1_3");  // the id is the whole array's too
  CHECK(shown("slurm-array-shown.txt", "2")->name == "1_1");
  CHECK(shown("slurm-array-shown.txt", "2")->restarts == 0);
  CHECK_FALSE(shown("slurm-array-shown.txt", "9"));
  CHECK(shown("slurm-components-shown.txt", "5")->name == "5");
  CHECK(shown("slurm-components-shown.txt", "6")->name == "5");  // Slurm requeues its leader only
  CHECK(parse_shown_job(in_job(Scheduler::slurm, "29"), "JobId=29 JobName=x Restarts=2")->restarts == 2);
  CHECK_FALSE(parse_shown_job(in_job(Scheduler::slurm, "29"), "slurm_load_jobs error: Invalid job id"));
}

TEST_CASE("the time from SIGTERM to SIGKILL is the configuration's, else the scheduler's default") {
  CHECK(end_grace(Scheduler::slurm, read_shown("slurm-config.txt")).value == Milliseconds{5000});
  CHECK(end_grace(Scheduler::slurm, "").value == Milliseconds{30000});
  CHECK(end_grace(Scheduler::slurm, "KillWait = soon").origin == "Slurm's default KillWait");
  CHECK(end_grace(Scheduler::pbs, "").value == Milliseconds{10000});
  CHECK(end_grace(Scheduler::flux, "").value == Milliseconds{5000});
  CHECK_FALSE(end_grace(Scheduler::lsf, "").known());
}

TEST_CASE("spans of time have days, hours and minutes or fewer of them") {
  CHECK(parse_span("45") == 45);
  CHECK(parse_span("30:00") == 1800);
  CHECK(parse_span("1-00:00:01") == 86401);
  CHECK_FALSE(parse_span(""));
  CHECK_FALSE(parse_span("UNLIMITED"));
  CHECK_FALSE(parse_span("-5"));
  CHECK_FALSE(parse_span("99999999999999:00"));
}

TEST_CASE(
    "a preempted job has the time until its end to stop, one that is over KillWait, others say nothing") {
  const auto job = [](const std::string& state, const std::string& preempted) {
    return "JobId=2 JobState=" + state + " EndTime=2026-11-27T00:05:30 PreemptTime=" + preempted;
  };
  const auto grace = [](const std::string& shown) { return parse_stop_grace(shown, "KillWait = 300 sec\n"); };
  CHECK(grace(job("RUNNING", "2026-11-26T23:55:30")) == Milliseconds{595000});
  CHECK(grace(job("COMPLETING", "None")) == Milliseconds{295000});
  CHECK(parse_stop_grace(job("COMPLETING", "None"), "") == Milliseconds{25000});
  CHECK_FALSE(grace(job("RUNNING", "None")));  // a step was signalled
  CHECK_FALSE(grace(job("RUNNING", "2026-11-27T00:05:30")));
  CHECK_FALSE(grace(job("RUNNING", "soon")));
  CHECK_FALSE(grace(""));
  CHECK(grace_question(Scheduler::slurm, "2") == std::vector<std::string>{"scontrol", "show", "job", "2"});
  CHECK(grace_question(Scheduler::pbs, "2").empty());
}
