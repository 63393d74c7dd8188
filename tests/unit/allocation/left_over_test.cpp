#include "allocation/detection/left_over.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::allocation;

namespace {

// A worker of job 41 that runs `sbatch next.sh`: job 42 starts with the worker's environment and Slurm's own
// numbers.
facts::Snapshot next_job(const std::string& nearest) {
  facts::Snapshot snapshot;
  snapshot.environment = {{"SLURM_JOB_ID", "42"}, {"RANK", "3"},           {"MASTER_PORT", "40123"},
                          {"HOME", "/home/lab"},  {"PMI_RANK", "3"},       {"OMPI_MCA_btl", "tcp"},
                          {"SLURM_PROCID", "0"},  {"OMP_NUM_THREADS", "8"}};
  snapshot.environment[k_worker_list_variable] = "slurm/41:RANK,MASTER_PORT,DDPRUN_LAUNCH_ID";
  snapshot.host.ancestors = {{12, "/bin/bash /var/spool/slurm_script"}, {11, nearest}};
  return snapshot;
}

constexpr const char* k_batch = "slurmstepd: [42.batch]";

}  // namespace

TEST_CASE("a worker's list names its job and what ddprun set, less the scheduler's own") {
  const facts::Environment worker{{"SLURM_JOB_ID", "41"}};
  CHECK(make_worker_list(worker, {"RANK", "SLURM_PROCID", "MASTER_PORT"}) == "slurm/41:RANK,MASTER_PORT");
  CHECK(make_worker_list({}, {"RANK"}) == ":RANK");
}

TEST_CASE("in the next job the variables of the worker that submitted it are left over") {
  const facts::Snapshot snapshot = next_job("hydra_pmi_proxy --control-port n1:4000");
  CHECK(find_left_over(snapshot) ==
        std::vector<std::string>{"RANK", "MASTER_PORT", k_worker_list_variable});  // what the user set stays
  CHECK(describe_left_over(snapshot) == "slurm/41");
}

TEST_CASE("where no launcher started this process its variables are left over too, and tuning is not") {
  const std::vector<std::string> with_launcher{"RANK", "MASTER_PORT", k_worker_list_variable, "PMI_RANK"};
  CHECK(find_left_over(next_job(k_batch)) == with_launcher);
  CHECK(find_left_over(next_job("slurmstepd: [42.0]")) == with_launcher);
  CHECK(find_left_over(next_job("/opt/pbs/sbin/pbs_mom")) == with_launcher);
}

TEST_CASE("the variables of srun's own PMI are this step's") {
  facts::Snapshot snapshot = next_job("slurmstepd: [42.0]");
  const std::vector<std::string> without_launcher{"RANK", "MASTER_PORT", k_worker_list_variable};
  for (const char* id : {"42.0", "42"}) {
    snapshot.environment["PMI_JOBID"] = id;
    CHECK(find_left_over(snapshot) == without_launcher);
  }
  snapshot.environment["PMI_JOBID"] = "421.0";
  CHECK(find_left_over(snapshot).back() == "PMI_RANK");
  snapshot.environment["PMIX_NAMESPACE"] = "slurm.pmix.42.0";
  CHECK(find_left_over(snapshot) == without_launcher);
}

TEST_CASE("a worker outside any job may submit one") {
  facts::Snapshot snapshot = next_job(k_batch);
  snapshot.environment[k_worker_list_variable] = ":RANK";
  snapshot.environment.erase("PMI_RANK");
  CHECK(find_left_over(snapshot) == std::vector<std::string>{"RANK", k_worker_list_variable});
  CHECK(describe_left_over(snapshot) == "no job");
}

TEST_CASE("in the same job, outside any job and below a ddprun nothing is left over") {
  facts::Snapshot snapshot = next_job(k_batch);
  snapshot.environment["SLURM_JOB_ID"] = "41";
  CHECK(find_left_over(snapshot).empty());
  snapshot.environment.erase("SLURM_JOB_ID");
  CHECK(find_left_over(snapshot).empty());
  snapshot = next_job("/opt/bin/ddprun train.py");
  CHECK(find_left_over(snapshot).empty());
}

TEST_CASE("a torn list leaves everything as it is") {
  facts::Snapshot snapshot = next_job(k_batch);
  snapshot.environment[k_worker_list_variable] = "RANK";
  CHECK(find_left_over(snapshot).empty());
  snapshot.environment.erase(k_worker_list_variable);
  CHECK(find_left_over(snapshot).empty());
}

TEST_CASE("a ddprun that a worker of the same job starts, by whatever scripts, is inside it") {
  facts::Snapshot snapshot = next_job("/opt/bin/ddprun train.py");
  CHECK_FALSE(is_inside_worker(snapshot));  // of another job
  snapshot.environment["SLURM_JOB_ID"] = "41";
  CHECK(is_inside_worker(snapshot));
  snapshot.host.ancestors.insert(snapshot.host.ancestors.begin() + 1, {13, "python3 train.py"});
  CHECK(is_inside_worker(snapshot));
  for (const char* launcher : {"hydra_pmi_proxy --control-port n1:1", "slurmstepd: [41.3]", "sshd: lab@notty",
                               "/opt/pbs/sbin/pbs_mom", "prted"}) {
    CAPTURE(launcher);
    facts::Snapshot launched = snapshot;
    launched.host.ancestors.insert(launched.host.ancestors.begin() + 1, {14, launcher});
    CHECK_FALSE(is_inside_worker(launched));
  }
  snapshot.environment.erase(k_worker_list_variable);
  CHECK_FALSE(is_inside_worker(snapshot));
}

TEST_CASE("every job of several schedulers is named") {
  CHECK(make_worker_list({{"PBS_JOBID", "7.ctl"}, {"FLUX_JOB_ID", "f1"}}, {}) == "pbs/7.ctl,flux/f1:");
}
