#include "allocation/schedulers/slurm_place.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::allocation;

TEST_CASE("slurmstepd's titles tell job and step") {
  struct Vector {
    const char* title;
    std::int64_t job;
    SlurmContext context;
    std::int64_t step;
  };
  for (const Vector& v : {Vector{"slurmstepd: [29.0]", 29, SlurmContext::step, 0},
                          Vector{"slurmstepd: [29.12]", 29, SlurmContext::step, 12},
                          Vector{"slurmstepd: [29.batch]", 29, SlurmContext::batch, 0},
                          Vector{"slurmstepd: [29.interactive]", 29, SlurmContext::interactive, 0},
                          Vector{"slurmstepd: [29.extern]", 29, SlurmContext::external, 0},
                          Vector{"slurmstepd: [29.0 stepmgr]", 29, SlurmContext::step, 0},
                          Vector{"slurmstepd: [29+1.0]", 29, SlurmContext::step, 0},
                          Vector{"slurmstepd: [29+1.batch]", 29, SlurmContext::batch, 0},
                          Vector{"slurmstepd: [29.3+1]", 29, SlurmContext::step, 3}}) {
    CAPTURE(v.title);
    const auto place = parse_stepd_title(v.title);
    REQUIRE(place);
    CHECK(*place == SlurmPlace{v.job, v.context, v.step, v.title});
  }
  for (const char* title : {"", "bash", "slurmstepd:", "slurmstepd: [", "slurmstepd: [29]",
                            "slurmstepd: [29.]", "slurmstepd: [29.0", "slurmstepd: [29+.0]",
                            "slurmstepd: [x.0]", "slurmd: [29.0]", "slurmstepd: [99999999999999999999.0]"}) {
    CAPTURE(title);
    CHECK_FALSE(parse_stepd_title(title));
  }
}

TEST_CASE("the cgroup tells job and step where it names them") {
  const auto found = [](const std::string& text) { return parse_slurm_cgroup(text); };
  CHECK(found("0::/system.slice/slurmstepd.scope/job_29/step_0/user/task_0\n") ==
        SlurmPlace{29, SlurmContext::step, 0, "cgroup job_29/step_0"});
  CHECK(found("9:cpuset:/slurm/uid_1000/job_29/step_batch\n1:name=systemd:/\n") ==
        SlurmPlace{29, SlurmContext::batch, 0, "cgroup job_29/step_batch"});
  CHECK(found("0::/slurm/job_x/job_7/step_extern/task_4")->context == SlurmContext::external);
  for (const char* text : {"", "0::/", "0::/s1A2B3/step_0/user", "0::/job_29", "0::/job_29/step_0x/"}) {
    CAPTURE(text);
    CHECK_FALSE(found(text));
  }
}

TEST_CASE("the nearest slurmstepd counts, and the cgroup where there is none") {
  facts::HostFacts host;
  CHECK_FALSE(find_slurm_place(host));
  host.cgroup = "0::/job_28/step_extern/x";
  host.ancestors = {{100, "bash"}};
  CHECK(find_slurm_place(host)->job == 28);
  host.ancestors = {{100, "bash"}, {90, "slurmstepd: [30.1]"}, {80, "slurmstepd: [29.0]"}};
  CHECK(find_slurm_place(host)->job == 30);
}

TEST_CASE("Slurm signals each process where no cgroup of its own has the step") {
  facts::HostFacts host;
  host.ancestors = {{100, "bash"}, {90, "slurmstepd: [30.1]"}};
  for (const char* cgroup :
       {"", "0::/\n", "0::/system.slice/slurmd.service\n", "1:name=systemd:/user.slice\n"}) {
    CAPTURE(cgroup);
    host.cgroup = cgroup;
    CHECK(signals_each_process(host));
  }
  for (const char* cgroup : {"0::/system.slice/slurmstepd.scope/job_29/step_0/user/task_0\n",
                             "0::/system.slice/slurmstepd.scope/s1A2B3/step_0/user\n",
                             "9:freezer:/slurm/uid_1000/job_29/step_0\n", "9:freezer:/slurm_n1/uid_0\n"}) {
    CAPTURE(cgroup);
    host.cgroup = cgroup;
    CHECK_FALSE(signals_each_process(host));
  }
  host.cgroup = "0::/\n";
  host.ancestors = {{100, "bash"}, {90, "pbs_mom"}};
  CHECK_FALSE(signals_each_process(host));
}

TEST_CASE(
    "what a batch script's shell has started ends with it where Slurm knows processes by their cgroup") {
  facts::HostFacts host;
  host.cgroup = "0::/system.slice/slurmstepd.scope/job_29/step_batch/user/task_0\n";
  host.ancestors = {{100, "/bin/bash /var/spool/slurmd/job00029/slurm_script"},
                    {90, "slurmstepd: [29.batch]"}};
  CHECK(ends_with_batch_shell(host));
  host.cgroup = "0::/system.slice/slurmd.service\n";
  CHECK_FALSE(ends_with_batch_shell(host));  // each process gets its own SIGTERM
  host.cgroup = "9:freezer:/slurm/uid_1000/job_29/step_batch\n";
  CHECK(ends_with_batch_shell(host));
  host.ancestors.erase(host.ancestors.begin());
  CHECK_FALSE(ends_with_batch_shell(host));  // exec
  host.ancestors = {{100, "bash"}, {90, "slurmstepd: [29.0]"}};
  CHECK_FALSE(ends_with_batch_shell(host));  // by srun
}
