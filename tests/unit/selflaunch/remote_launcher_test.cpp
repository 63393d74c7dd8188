#include "selflaunch/remote_launcher.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "catch.hpp"
#include "error_text.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::selflaunch;

namespace {

constexpr const char* k_hydra =
    "HYDRA build details:\n    Resource management kernels available: user slurm ll lsf sge pbs cobalt\n";

facts::ProgramFacts program(const std::string& name, const std::string& version = {}) {
  return {facts::ProgramKind::executable, "/usr/bin/" + name, version};
}

facts::Snapshot on_host(const std::string& name, facts::Environment environment = {}) {
  facts::Snapshot snapshot;
  snapshot.host.name = name;
  snapshot.host.allowed_cpus = {0, 1, 2, 3};
  snapshot.host.allowed_cores = 4;
  snapshot.environment = std::move(environment);
  snapshot.arguments = {"train.py", "a b"};
  snapshot.programs["ddprun"] = {facts::ProgramKind::executable, "/opt/ddprun", {}};
  for (const char* each : {"srun", "ssh", "pbsdsh", "pbs_tmrsh", "flux", "blaunch"})
    snapshot.programs[each] = program(each);
  return snapshot;
}

const facts::Environment k_batch{{"SLURM_JOB_ID", "29"},
                                 {"SLURM_JOB_NODELIST", "n[1-2]"},
                                 {"SLURM_JOB_NUM_NODES", "2"},
                                 {"SLURM_TASKS_PER_NODE", "4(x2)"},
                                 {"SLURM_JOB_CPUS_PER_NODE", "8(x2)"},
                                 {"ENVIRONMENT", "BATCH"},
                                 {"SLURM_PROCID", "0"},
                                 {"SLURM_NODEID", "0"},
                                 {"SLURM_LOCALID", "0"}};

options::Options hosts(std::vector<std::string> names) {
  options::Options options;
  options.command = {"train.py"};
  options.place.hosts = sourced(std::move(names), "--hosts");
  return options;
}

std::string line(const SelfLaunchPlan& plan, std::size_t number = 0) {
  return shell_quote(plan.commands.at(number).words);
}

const plan::VariableChange* find_change(const SelfLaunchPlan& plan, const std::string& name) {
  const auto found = std::find_if(plan.changes.begin(), plan.changes.end(),
                                  [&](const plan::VariableChange& change) { return change.name == name; });
  return found == plan.changes.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("a batch script of Slurm carries ddprun with srun, once a node") {
  const auto plan = test::plan_self_launch(on_host("n1", k_batch), {});
  REQUIRE(plan);
  CHECK(plan->remote_launcher.value == "srun");
  CHECK(plan->task == TaskWay::environment);
  CHECK(plan->hosts == std::vector<std::string>{"n1", "n2"});
  CHECK(line(*plan) ==
        "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpu-bind=none --mpi=none --export=ALL "
        "--kill-on-bad-exit=1 --input=0 /opt/ddprun train.py 'a b'");
}

TEST_CASE("srun passes prompts on where a person answers them, unless lines of a file could be torn") {
  const auto is_unbuffered = [](const char* host, const facts::Environment& environment, bool input,
                                bool output) {
    facts::Snapshot snapshot = on_host(host, environment);
    snapshot.host.stdin_is_terminal = input;
    snapshot.host.stdout_is_terminal = output;
    const auto plan = test::plan_self_launch(snapshot, {});
    return line(plan.value()).find(" --input=0 --unbuffered /opt/ddprun") != std::string::npos;
  };
  CHECK(is_unbuffered("n1", k_batch, true, true));
  CHECK_FALSE(is_unbuffered("n1", k_batch, true, false));
  CHECK_FALSE(is_unbuffered("n1", k_batch, false, true));
  const facts::Environment one_node{{"SLURM_JOB_ID", "29"},
                                    {"SLURM_JOB_NODELIST", "n1"},
                                    {"SLURM_JOB_NUM_NODES", "1"},
                                    {"SLURM_TASKS_PER_NODE", "1"},
                                    {"SLURM_JOB_CPUS_PER_NODE", "8"}};
  CHECK(is_unbuffered("login", one_node, true, false));  // there is nobody else's line
}

TEST_CASE("what would shape the step is removed, and the workers get their CPUs per task back") {
  facts::Environment environment = k_batch;
  for (const char* name :
       {"SLURM_GPUS_PER_TASK", "SLURM_NTASKS", "SLURM_CPU_BIND_TYPE", "SRUN_CPUS_PER_TASK"})
    environment[name] = "1";
  environment["SLURM_CPUS_PER_TASK"] = "2";
  environment["SLURM_MPI_TYPE"] = "pmix";
  environment["SLURM_MEM_PER_CPU"] = "100";
  const auto plan = test::plan_self_launch(on_host("n1", environment), {});
  REQUIRE(plan);
  CHECK(
      line(*plan) ==
      "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=8 --gpus=1 --cpu-bind=none --export=ALL "
      "--kill-on-bad-exit=1 --input=0 /opt/ddprun train.py 'a b'");
  for (const char* name : {"SLURM_GPUS_PER_TASK", "SLURM_NTASKS", "SLURM_CPU_BIND_TYPE", "SRUN_CPUS_PER_TASK",
                           "SLURM_CPUS_PER_TASK"}) {
    CAPTURE(name);
    REQUIRE(find_change(*plan, name));
    CHECK_FALSE(find_change(*plan, name)->value);
  }
  CHECK(find_change(*plan, "DDPRUN_CPUS_PER_TASK")->value == "2");
  CHECK_FALSE(find_change(*plan, "SLURM_MEM_PER_CPU"));
}

TEST_CASE("GPUs that the job asked for by task are asked for again") {
  const auto gpus_of = [](const std::string& name, const std::string& value) {
    facts::Environment environment = k_batch;
    environment["SLURM_NTASKS"] = "8";
    environment[name] = value;
    const auto plan = test::plan_self_launch(on_host("n1", environment), {});
    for (const std::string& word : plan->commands.front().words) {
      if (word.starts_with("--gpus=")) return word;
    }
    return std::string();
  };
  CHECK(gpus_of("SLURM_GPUS_PER_TASK", "1") == "--gpus=8");
  CHECK(gpus_of("SLURM_GPUS_PER_TASK", "a100:2") == "--gpus=a100:16");
  CHECK(gpus_of("SLURM_GPUS_PER_TASK", "a100:1,v100:1").empty());
  CHECK(gpus_of("SLURM_TRES_PER_TASK", "cpu=4,gres/gpu:1") == "--gpus=8");
  CHECK(gpus_of("SLURM_GPUS_PER_NODE", "4").empty());
}

TEST_CASE("fewer nodes than the job's are asked for with their own GPUs only") {
  facts::Environment environment = k_batch;
  environment["SLURM_JOB_NODELIST"] = "n[1-3]";
  environment["SLURM_JOB_NUM_NODES"] = "3";
  environment["SLURM_TASKS_PER_NODE"] = "4(x2),2";
  environment["SLURM_NTASKS"] = "10";
  environment["SLURM_GPUS_PER_TASK"] = "1";
  const auto line_of = [&](int nodes) {
    options::Options options;
    options.place.nodes = sourced(nodes, "--nnodes");
    return line(test::plan_self_launch(on_host("n1", environment), options).value());
  };
  CHECK(line_of(2).find(" --gpus=8 ") != std::string::npos);
  CHECK(line_of(3).find(" --gpus=10 ") != std::string::npos);
}

TEST_CASE("ssh is refused where a job's GPUs of this host would be named on another") {
  const auto refusal = [](facts::Environment environment) {
    environment["CUDA_VISIBLE_DEVICES"] = "2,3";
    return error_of([&] { test::plan_self_launch(on_host("n1", environment), hosts({"n1", "n2"})); });
  };
  CHECK(refusal({}) == "no error");  // the user's own
  CHECK(refusal({{"PBS_JOBID", "7.server"}}) ==
        "CUDA_VISIBLE_DEVICES=2,3 are the GPUs of pbs/7.server on n1; ssh does not show which GPUs it has on "
        "n2 | let the scheduler start ddprun (leave out --launcher ssh, --hosts and --hostfile); if the job "
        "has whole nodes, unset CUDA_VISIBLE_DEVICES | 2");
}

TEST_CASE("each component of a heterogeneous job brings its own nodes") {
  facts::Environment environment = k_batch;
  environment["SLURM_HET_SIZE"] = "2";
  environment["SLURM_JOB_ID_HET_GROUP_0"] = "29";
  environment["SLURM_JOB_ID_HET_GROUP_1"] = "30";
  environment["SLURM_JOB_NODELIST_HET_GROUP_0"] = "n[1-2]";
  environment["SLURM_JOB_NODELIST_HET_GROUP_1"] = "n3";
  const auto plan = test::plan_self_launch(on_host("n1", environment), {});
  REQUIRE(plan);
  CHECK(line(*plan) ==
        "srun --het-group=0 --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpu-bind=none --mpi=none --export=ALL "
        "--kill-on-bad-exit=1 /opt/ddprun train.py 'a b' : --het-group=1 --nodes=1 --ntasks=1 "
        "--ntasks-per-node=1 --cpu-bind=none --mpi=none --export=ALL --kill-on-bad-exit=1 /opt/ddprun "
        "train.py 'a b'");
}

TEST_CASE("listed hosts are reached by ssh, and this one without") {
  const auto plan = test::plan_self_launch(on_host("a"), hosts({"a", "b"}));
  REQUIRE(plan);
  CHECK(plan->task == TaskWay::input);
  CHECK(line(*plan, 0) == "/opt/ddprun --started-by input");
  CHECK(line(*plan, 1) ==
        "ssh -T -x -o BatchMode=yes -o ConnectTimeout=15 -o ControlMaster=no -o ControlPath=none b "
        "'/opt/ddprun --started-by input'");
  CHECK(find_change(*plan, "DDPRUN_HOSTS")->value == "a,b");
}

TEST_CASE("hydra is told the hosts, Open MPI the variables to pass") {
  options::Options options = hosts({"n1", "n2"});
  options.remote_launcher = sourced<std::string>("mpiexec", "--launcher");
  facts::Snapshot snapshot = on_host("n1");
  snapshot.programs["mpiexec"] = program("mpiexec", k_hydra);
  CHECK(line(*test::plan_self_launch(snapshot, options)) ==
        "mpiexec -hosts n1,n2 -ppn 1 -n 2 /opt/ddprun train.py 'a b'");
  snapshot.programs["mpiexec"] = program("mpiexec", "mpiexec (OpenRTE) 4.1.4\n");
  const auto open_mpi = test::plan_self_launch(snapshot, options);
  CHECK(open_mpi->task == TaskWay::lifeline);
  CHECK(line(*open_mpi) ==
        "mpiexec -n 2 --map-by ppr:1:node --bind-to none -x DDPRUN_FRONT_END -x DDPRUN_FRONT_END_KEY "
        "/opt/ddprun "
        "--started-by ADDRESS:PORT/ID");
  snapshot.programs["mpiexec"] = program("mpiexec", "PALS 1.3\n");
  CHECK(line(*test::plan_self_launch(snapshot, options)) ==
        "mpiexec -n 2 --ppn 1 --cpu-bind none /opt/ddprun train.py 'a b'");
  snapshot.programs["mpiexec"] = program("mpiexec", "pbs_version = 23.06.06\n");
  CHECK(error_of([&] {
          test::plan_self_launch(snapshot, options);
        }).starts_with("the mpiexec on PATH is that of OpenPBS, which only starts jobs of SGI's MPI"));
  snapshot.programs["mpiexec"] = program("mpiexec", "something else\n");
  CHECK(error_of([&] { test::plan_self_launch(snapshot, options); }) ==
        "the mpiexec on PATH is not supported: ddprun cannot start one process per node with it | load the "
        "MPI module of this site, or choose another remote launcher, as in --launcher ssh | 125");
}

TEST_CASE("nothing is carried where --launcher none says so or a step runs already") {
  options::Options none;
  none.remote_launcher = sourced<std::string>("none", "--launcher");
  CHECK_FALSE(test::plan_self_launch(on_host("n1", k_batch), none));
  CHECK_FALSE(test::plan_self_launch(on_host("n1"), {}));
}

TEST_CASE("a remote launcher that is not there or does not fit is refused") {
  facts::Snapshot snapshot = on_host("n1", k_batch);
  snapshot.programs["srun"] = {};
  CHECK(error_of([&] { test::plan_self_launch(snapshot, {}); }) ==
        "cannot start ddprun on the other hosts: no srun on PATH | load its module, or choose another remote "
        "launcher with --launcher | 125");
  options::Options options;
  options.remote_launcher = sourced<std::string>("pbsdsh", "--launcher");
  CHECK(usage_error_of([&] { test::plan_self_launch(snapshot, options); }) ==
        "--launcher pbsdsh cannot start processes on these hosts (SLURM_JOB_NODELIST) | leave it out, or "
        "choose srun");
  options.remote_launcher.value = "mpiexec";
  snapshot.programs["mpiexec"] = {};
  CHECK(error_of([&] { test::plan_self_launch(snapshot, options); }) ==
        "--launcher mpiexec cannot be used: mpiexec is not on PATH | load its module, or choose another "
        "remote launcher with --launcher | 125");
  options::Options listed = hosts({"a", "b"});
  listed.remote_launcher = sourced<std::string>("srun", "--launcher");
  CHECK(usage_error_of([&] { test::plan_self_launch(on_host("a"), listed); }) ==
        "--launcher srun cannot start processes on hosts that you list (--hosts) | leave it out, or choose "
        "ssh");
}

TEST_CASE("a snapshot that tells nothing of remote launchers is not taken for a host without them") {
  facts::Snapshot snapshot = on_host("n1", k_batch);
  snapshot.programs.clear();
  CHECK(error_of([&] { test::plan_self_launch(snapshot, {}); }) ==
        "the snapshot does not show whether srun is on PATH | capture it again with ddprun --capture FILE | "
        "125");
  options::Options options;
  options.remote_launcher = sourced<std::string>("mpiexec", "--launcher");
  CHECK(error_of([&] { test::plan_self_launch(snapshot, options); }) ==
        "the snapshot does not show whether mpiexec is on PATH | capture it again with ddprun --capture FILE "
        "| 125");
}

TEST_CASE("only the programs that may be used are looked for") {
  allocation::Allocation allocation;
  allocation.scheduler.value = facts::Scheduler::slurm;
  options::Options options;
  CHECK(remote_launcher_programs(allocation, options) == std::vector<std::string>{"srun"});
  allocation.scheduler.value = facts::Scheduler::pbs;
  CHECK(remote_launcher_programs(allocation, options) ==
        std::vector<std::string>{"mpiexec", "pbsdsh", "pbs_tmrsh", "ssh"});
  options.remote_launcher = sourced<std::string>("ssh", "--launcher");
  CHECK(remote_launcher_programs(allocation, options) == std::vector<std::string>{"ssh"});
}

TEST_CASE("ddprun does not start itself twice") {
  facts::Environment environment = k_batch;
  environment["DDPRUN_LAUNCH_ID"] = "1";
  CHECK(error_of([&] { test::plan_self_launch(on_host("n1", environment), {}); }) ==
        "ddprun was started by a worker of another ddprun and would start itself on all hosts again | add "
        "--standalone to use this host alone | 125");
  environment = k_batch;
  environment["DDPRUN_FRONT_END"] = "10.0.0.1:4000/x";
  CHECK(error_of([&] { test::plan_self_launch(on_host("n1", environment), {}); }) ==
        "ddprun was started on n1 by another ddprun, but its place in that launch is unknown | if "
        "DDPRUN_FRONT_END is left from an earlier launch, unset it; else choose another remote launcher with "
        "--launcher | 125");
}
