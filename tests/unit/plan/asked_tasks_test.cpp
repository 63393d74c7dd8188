// The tasks that a job's script asks for are its workers where no GPU is visible, however ddprun is started.
#include "allocation/asked_tasks.hpp"

#include <fmt/format.h>

#include <numeric>

#include "allocation/schedulers/slurm_step.hpp"
#include "allocation_cases.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "catch.hpp"
#include "error_text.hpp"
#include "plan/launch_nodes.hpp"
#include "plan/worker_count.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

// What sbatch sets, and scontrol shows, as Slurm 22.05 does for `asked` on two nodes of eight CPUs.
struct SlurmJob {
  const char* asked;
  const char* tasks;    // SLURM_NTASKS
  const char* each;     // SLURM_NTASKS_PER_NODE
  const char* layout;   // SLURM_TASKS_PER_NODE
  const char* cpus;     // SLURM_JOB_CPUS_PER_NODE
  const char* shown;    // of scontrol show job
  const char* workers;  // on n1 and n2
};

constexpr SlurmJob k_slurm_jobs[] = {
    {"-N2", "", "", "1(x2)", "1(x2)", "NumTasks=2 CPUs/Task=1 NtasksPerN:B:S:C=0:0:*:*", "1 1"},
    {"-N2 --exclusive", "", "", "8(x2)", "8(x2)", "NumTasks=2 CPUs/Task=1 NtasksPerN:B:S:C=0:0:*:*", "1 1"},
    {"-N2 -c2", "", "", "1(x2)", "2(x2)", "NumTasks=2 CPUs/Task=2 NtasksPerN:B:S:C=0:0:*:*", "1 1"},
    {"-N2 -n2", "2", "", "1(x2)", "1(x2)", "NumTasks=2 CPUs/Task=1 NtasksPerN:B:S:C=0:0:*:*", "1 1"},
    {"-N2 --ntasks-per-node=2", "4", "2", "2(x2)", "2(x2)", "NumTasks=4 CPUs/Task=1 NtasksPerN:B:S:C=2:0:*:*",
     "2 2"},
    {"-N2 --ntasks-per-node=2 -c2", "4", "2", "2(x2)", "4(x2)",
     "NumTasks=4 CPUs/Task=2 NtasksPerN:B:S:C=2:0:*:*", "2 2"},
    {"-N2 --ntasks-per-node=2 --exclusive", "4", "2", "2(x2)", "8(x2)",
     "NumTasks=4 CPUs/Task=1 NtasksPerN:B:S:C=2:0:*:*", "2 2"},
    {"-N2 --ntasks=3", "3", "", "2,1", "2,1", "NumTasks=3 CPUs/Task=1 NtasksPerN:B:S:C=0:0:*:*", "2 1"},
    {"-N2 -n4", "4", "", "3,1", "3,1", "NumTasks=4 CPUs/Task=1 NtasksPerN:B:S:C=0:0:*:*", "3 1"}};

facts::Snapshot on_host(const std::string& name, facts::Environment environment) {
  facts::Snapshot snapshot;
  snapshot.host.name = name;
  snapshot.host.allowed_cpus.resize(8);
  std::iota(snapshot.host.allowed_cpus.begin(), snapshot.host.allowed_cpus.end(), 0);
  snapshot.host.allowed_cores = snapshot.host.online_cpus = 8;
  snapshot.environment = std::move(environment);
  for (const char* program : {"ddprun", "srun", "pbsdsh"})
    snapshot.programs[program] = {facts::ProgramKind::executable, fmt::format("/usr/bin/{}", program), {}};
  return snapshot;
}

options::Options running() {
  options::Options options;
  options.command = {"true"};
  options.no_python = true;
  return options;
}

facts::Snapshot in_batch_script(const SlurmJob& job) {
  facts::Environment environment{{"SLURM_JOB_ID", "29"},       {"SLURM_JOB_NODELIST", "n[1-2]"},
                                 {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_TASKS_PER_NODE", job.layout},
                                 {"SLURM_CPUS_ON_NODE", "8"},  {"SLURM_JOB_CPUS_PER_NODE", job.cpus},
                                 {"SLURM_PROCID", "0"},        {"SLURM_NODEID", "0"},
                                 {"ENVIRONMENT", "BATCH"}};
  if (*job.tasks != '\0') environment["SLURM_NTASKS"] = job.tasks;
  if (*job.each != '\0') environment["SLURM_NTASKS_PER_NODE"] = job.each;
  return on_host("n1", std::move(environment));
}

// In a step whose tasks are `layout`, as the first one of its node.
facts::Snapshot in_step(const SlurmJob& job, int node, const std::string& layout, const std::string& tasks,
                        const std::string& rank) {
  facts::Snapshot snapshot = in_batch_script(job);
  snapshot.host.name = fmt::format("n{}", node + 1);
  facts::Environment& environment = snapshot.environment;
  environment.erase("ENVIRONMENT");
  const facts::Environment step{{"SLURM_STEP_ID", "0"},           {"SLURM_STEP_NODELIST", "n[1-2]"},
                                {"SLURM_STEP_NUM_NODES", "2"},    {"SLURM_STEP_NUM_TASKS", tasks},
                                {"SLURM_NTASKS", tasks},          {"SLURM_STEP_TASKS_PER_NODE", layout},
                                {"SLURM_TASKS_PER_NODE", layout}, {"SLURM_NODEID", std::to_string(node)},
                                {"SLURM_PROCID", rank},           {"SLURM_LOCALID", "0"}};
  for (const auto& [name, value] : step) environment[name] = value;
  return snapshot;
}

facts::Snapshot in_step_of_one_each(const SlurmJob& job, int node) {
  facts::Snapshot snapshot = in_step(job, node, "1(x2)", "2", std::to_string(node));
  snapshot.environment["SLURM_NTASKS_PER_NODE"] = "1";
  return snapshot;
}

std::shared_ptr<const NodeProposal> propose_shared(const facts::Snapshot& snapshot,
                                                   const std::string& shown = {}) {
  allocation::Allocation allocation = allocation::detect_allocation(snapshot, {});
  if (allocation::lacks_asked_tasks(allocation, snapshot)) {
    auto asked = allocation::parse_shown_tasks("JobId=29 " + shown, allocation, snapshot);
    if (asked) allocation.asked_tasks = std::move(asked);
  }
  return std::make_shared<const NodeProposal>(propose(snapshot, running(), std::move(allocation)));
}

Announcement announce(const NodeProposal& node, int agent) {
  Announcement self;
  self.agent = AgentIndex{agent};
  self.host = node.host;
  self.node = NodeIndex{agent};
  self.workers = node.workers.value;
  self.for_tasks = node.for_tasks;
  if (agent == 0 && allocation::asks_for_several(node.allocation))
    self.asked_tasks = allocation::write_asked_tasks(node.allocation.asked_tasks->value);
  return self;
}

// The workers that the two agents start once they have met.
std::string meet(const facts::Snapshot& first, const facts::Snapshot& second, const std::string& shown = {}) {
  const auto one = propose_shared(first, shown);
  const auto two = propose_shared(second, shown);
  const WorldPlan world = make_world_plan({announce(*one, 0), announce(*two, 1)});
  return fmt::format("{} {}", finalise(one, world.assignments[0], first).planned.size(),
                     finalise(two, world.assignments[1], second).planned.size());
}

// What the front end passes on, and what its agents make of it.
std::string launch_alone(const SlurmJob& job) {
  const auto plan = test::plan_self_launch(in_batch_script(job), running());
  std::vector<facts::Snapshot> agents{in_step_of_one_each(job, 0), in_step_of_one_each(job, 1)};
  for (facts::Snapshot& agent : agents) {
    for (const VariableChange& change : plan->changes) {
      agent.environment.erase(change.name);
      if (change.value) agent.environment[change.name] = *change.value;
    }
  }
  std::vector<int> expected = plan->workers_of_nodes;
  if (expected.empty()) expected.assign(2, plan->workers.value);
  const std::string workers = fmt::format("{} {}", propose_shared(agents[0])->workers.value,
                                          propose_shared(agents[1])->workers.value);
  CHECK(workers == fmt::format("{} {}", expected[0], expected[1]));  // what --dry-run shows
  return workers;
}

std::string launch_tasks(const SlurmJob& job) {
  const std::string tasks = *job.tasks != '\0' ? job.tasks : "2";
  const std::string layout = *job.tasks != '\0' ? job.layout : "1(x2)";
  std::string workers;
  for (const int node : {0, 1}) {
    const auto proposal = propose_shared(
        in_step(job, node, layout, tasks, node == 0 ? "0" : std::to_string(std::stoi(tasks) - 1)));
    workers += fmt::format("{}{}", node == 0 ? "" : " ", proposal->local_world_size);
  }
  return workers;
}

facts::Snapshot pbs_case(const std::string& name, const std::string& node_file) {
  facts::Snapshot snapshot = test::read_case_snapshot(test::data_folder("allocations") / name);
  const facts::Snapshot host = on_host(snapshot.host.name, {});
  snapshot.host.allowed_cpus = host.host.allowed_cpus;
  snapshot.host.allowed_cores = snapshot.host.online_cpus = 8;
  snapshot.programs = host.programs;
  for (auto& [path, contents] : snapshot.files) contents = node_file;
  return snapshot;
}

}  // namespace

TEST_CASE("Slurm's tasks are the workers where no GPU is visible, by all ways to start") {
  for (const SlurmJob& job : k_slurm_jobs) {
    INFO(job.asked);
    CHECK(launch_alone(job) == job.workers);
    CHECK(meet(in_step_of_one_each(job, 0), in_step_of_one_each(job, 1), job.shown) == job.workers);
    CHECK(launch_tasks(job) == job.workers);
  }
}

TEST_CASE(
    "PBS's mpiprocs are the workers where no GPU is visible, also on hosts that do not have the node file") {
  struct Row {
    const char* select;
    const char* node_file;
    const char* workers;
  };
  for (const Row& row :
       {Row{"2:ncpus=4", "n1\nn2\n", "1 1"}, Row{"2:ncpus=4:mpiprocs=2", "n1\nn1\nn2\nn2\n", "2 2"},
        Row{"1:ncpus=4:mpiprocs=3+1:ncpus=4", "n1\nn1\nn1\nn2\n", "3 1"}}) {
    INFO(row.select);
    CHECK(meet(pbs_case("pbs-23.06-hydra-one-a-node-n1-0", row.node_file),
               pbs_case("pbs-23.06-hydra-one-a-node-n2-1", row.node_file)) == row.workers);
    const auto plan = test::plan_self_launch(pbs_case("pbs-23.06-batch", row.node_file), running());
    const std::vector<int>& each = plan->workers_of_nodes;
    CHECK((each.empty() ? fmt::format("{0} {0}", plan->workers.value)
                        : fmt::format("{} {}", each[0], each[1])) == row.workers);
  }
  facts::Snapshot torque = pbs_case("torque-6.1-batch", "n1\nn1\nn2\nn2\n");  // a line for each CPU
  torque.environment.erase("NCPUS");
  CHECK_FALSE(allocation::detect_allocation(torque, {}).asked_tasks);
}

TEST_CASE("a plan says which variable gives the tasks, and what --nproc-per-node says comes first") {
  const SlurmJob& uneven = k_slurm_jobs[7];
  const facts::Snapshot script = in_batch_script(uneven);
  const auto plan = test::plan_self_launch(script, running());
  CHECK(plan->workers.origin == "tasks of the job (SLURM_TASKS_PER_NODE)");
  CHECK(plan->workers_of_nodes == std::vector<int>{2, 1});
  facts::Snapshot agent = in_step_of_one_each(uneven, 1);
  agent.environment["DDPRUN_TASKS"] = "2*n1 1*n2";
  const auto node = propose_shared(agent);
  CHECK(node->workers.origin == "tasks of the job (DDPRUN_TASKS)");
  CHECK(node->world_size.value == 3);
  CHECK(node->offered.front().expected_rank == GlobalRank{2});
  options::Options given = running();
  given.workers = {options::WorkersKind::number, 4, "--nproc-per-node"};
  CHECK(test::propose_node(agent, given).workers.value == 4);
}

TEST_CASE("with GPUs there is one worker for each, and one sentence where the tasks differ") {
  facts::Snapshot script = in_batch_script(k_slurm_jobs[4]);
  script.environment["SLURM_JOB_NODELIST"] = "n1";
  script.environment["SLURM_JOB_NUM_NODES"] = "1";
  script.environment["SLURM_NTASKS"] = "2";
  script.environment["SLURM_TASKS_PER_NODE"] = "2";
  script.host.gpus.resize(4, {"nvidia", ""});
  const auto find_sentence = [](const NodeProposal& node) {
    for (const allocation::Notice& notice : node.notices) {
      if (notice.what.find("the job asks for") != std::string::npos) return notice.what + " | " + notice.hint;
    }
    return std::string();
  };
  const NodeProposal node = test::propose_node(script, running());
  CHECK(node.workers.value == 4);
  CHECK(find_sentence(node) ==
        "the job asks for 2 tasks on n1 (SLURM_TASKS_PER_NODE), but one worker is started for each GPU: 4 | "
        "--nproc-per-node 2 starts one for each task");
  script.host.gpus.resize(2);
  CHECK(find_sentence(test::propose_node(script, running())).empty());
}

TEST_CASE("asked tasks are read back as they are written, and malformed ones are refused") {
  const std::vector<allocation::Host> hosts{{"n1", 2}, {"n2", 2}, {"n3", 1}, {"m1", 2}};
  CHECK(allocation::write_asked_tasks(hosts) == "2*n[1-2] 1*n3 2*m1");
  CHECK(allocation::parse_asked_tasks("2*n[1-2] 1*n3 2*m1", "DDPRUN_TASKS") == hosts);
  CHECK(error_of([] { allocation::parse_asked_tasks("n1", "DDPRUN_TASKS"); }) ==
        "DDPRUN_TASKS is malformed: 'n1' |  | 125");
  CHECK(error_of([] { allocation::parse_asked_tasks("0*n1", "DDPRUN_TASKS"); }) ==
        "DDPRUN_TASKS is malformed: '0*n1' |  | 125");
  CHECK(error_of([] { allocation::parse_asked_tasks("1*n[1-65536] 1*m[1-65536] 1*k", "n1"); }) ==
        "n1 names more than 131072 hosts |  | 125");
}
