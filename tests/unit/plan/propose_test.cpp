#include "plan/propose.hpp"

#include <fmt/format.h>

#include "catch.hpp"
#include "error_text.hpp"
#include "plan/finalise.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

facts::Snapshot machine(facts::Environment environment = {}, const std::string& host = "n1") {
  facts::Snapshot snapshot;
  snapshot.host.name = host;
  snapshot.host.pid = 77;
  snapshot.host.allowed_cpus = {0, 1, 2, 3, 4, 5, 6, 7};
  snapshot.host.allowed_cores = 8;
  snapshot.host.online_cpus = 8;
  snapshot.unix_time = 1700000000;
  snapshot.working_directory = "/home/u/run";
  snapshot.environment = std::move(environment);
  snapshot.arguments = {"train.py"};
  return snapshot;
}

// A task of `srun`: `tasks` on each of the step's hosts, as SLURM_STEP_TASKS_PER_NODE spells it.
facts::Environment step(const std::string& hosts, const std::string& tasks, int count, int node, int rank,
                        int local) {
  return {{"SLURM_JOB_ID", "29"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NODELIST", hosts},
          {"SLURM_STEP_TASKS_PER_NODE", tasks},
          {"SLURM_STEP_NUM_TASKS", std::to_string(count)},
          {"SLURM_NODEID", std::to_string(node)},
          {"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_LOCALID", std::to_string(local)}};
}

facts::Environment with(facts::Environment environment, const facts::Environment& more) {
  environment.insert(more.begin(), more.end());
  return environment;
}

options::Options running(std::vector<std::string> command = {"train.py"}) {
  options::Options options;
  options.command = std::move(command);
  return options;
}

std::string refusal(const facts::Snapshot& snapshot, const options::Options& options = running()) {
  return error_of([&] { test::plan_node(snapshot, options); });
}

facts::Environment worker(const LaunchPlan& plan, const facts::Snapshot& snapshot, std::size_t index) {
  facts::Environment environment;
  for (const auto& [change, open] : expected_variables(plan, snapshot.environment, index)) {
    if (change.value) environment[change.name] = *change.value;
  }
  return environment;
}

std::string show(const Sourced<std::string>& value) { return value.value + " <- " + value.origin; }
std::string show(const Sourced<int>& value) { return fmt::format("{} <- {}", value.value, value.origin); }

}  // namespace

TEST_CASE("a task that sees one GPU has local rank 0, and is told what that costs") {
  facts::Snapshot snapshot = machine(with(step("n1", "4", 4, 0, 3, 3), {{"CUDA_VISIBLE_DEVICES", "0"}}));
  snapshot.host.gpus = {{"nvidia", ""}};
  const LaunchPlan plan = test::plan_node(snapshot, running());
  const facts::Environment environment = worker(plan, snapshot, 0);
  CHECK(environment.at("LOCAL_RANK") == "0");
  CHECK(environment.at("RANK") == "3");
  CHECK(environment.at("LOCAL_WORLD_SIZE") == "4");
  CHECK_FALSE(environment.contains("CUDA_VISIBLE_DEVICES"));  // it sees that one already
  REQUIRE(notices_of(plan).size() == 1);
  CHECK(notices_of(plan)[0] ==
        allocation::Notice{
            "every task sees one GPU only (CUDA_VISIBLE_DEVICES=0), so workers get LOCAL_RANK 0 and direct "
            "GPU-to-GPU transfers may be off",
            "launch with srun --gpu-bind=none to let every task see all GPUs of its node"});
}

TEST_CASE("nothing is said of GPUs that the tasks may turn out to share") {
  facts::Snapshot snapshot = machine(with(step("n1", "4", 4, 0, 3, 3), {{"CUDA_VISIBLE_DEVICES", "3"}}));
  snapshot.host.gpus.assign(4, {"nvidia", ""});
  const LaunchPlan plan = test::plan_node(snapshot, running());
  CHECK(plan.node->own_device);
  CHECK(plan.node->virtual_local_rank.origin == "one visible GPU per task, unless all can open the others'");
  CHECK(worker(plan, snapshot, 0).at("LOCAL_RANK") == "0");
  CHECK(plan.planned[0].gpus == std::vector<int>{3});
  CHECK(notices_of(plan).empty());
  snapshot.host.gpus.resize(1);  // a device cgroup
  snapshot.environment["CUDA_VISIBLE_DEVICES"] = "0";
  CHECK(notices_of(test::plan_node(snapshot, running())).size() == 1);
}

TEST_CASE("a task whose GPUs no variable hides keeps its local rank") {
  facts::Snapshot snapshot = machine(with(step("n1", "4", 4, 0, 3, 3), {{"SLURM_STEP_GPUS", "3"}}));
  snapshot.host.gpus.assign(4, {"nvidia", ""});
  const LaunchPlan plan = test::plan_node(snapshot, running());
  const facts::Environment environment = worker(plan, snapshot, 0);
  CHECK(environment.at("LOCAL_RANK") == "3");
  CHECK_FALSE(environment.contains("CUDA_VISIBLE_DEVICES"));
  CHECK(plan.planned[0].gpus == std::vector<int>{3});
}

TEST_CASE("workers see the step's GPUs and not the host's first ones") {
  facts::Snapshot snapshot = machine(with(step("n1", "1", 1, 0, 0, 0), {{"SLURM_STEP_GPUS", "2,3"}}));
  snapshot.host.gpus.assign(4, {"nvidia", ""});
  LaunchPlan plan = test::plan_node(snapshot, running());
  REQUIRE(plan.planned.size() == 2);
  CHECK(worker(plan, snapshot, 1).at("CUDA_VISIBLE_DEVICES") == "2,3");
  CHECK(worker(plan, snapshot, 1).at("LOCAL_RANK") == "1");
  snapshot.environment["SLURM_STEP_GPUS"] = "0,1,2,3";
  plan = test::plan_node(snapshot, running());
  CHECK_FALSE(worker(plan, snapshot, 1).contains("CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("workers with several GPUs each have those of their place in the list") {
  options::Options options = running();
  options.gpus_per_worker = {2, "--gpus-per-worker"};
  facts::Snapshot snapshot = machine({{"CUDA_VISIBLE_DEVICES", "7,5,3,1"}});
  snapshot.host.gpus.assign(8, {"nvidia", ""});
  const LaunchPlan plan = test::plan_node(snapshot, options);
  REQUIRE(plan.planned.size() == 2);
  CHECK(plan.planned[0].device == "7,5");
  CHECK(plan.planned[1].device == "3,1");
  CHECK(plan.planned[1].gpus == std::vector<int>{3, 1});
  CHECK(worker(plan, snapshot, 1).at("CUDA_VISIBLE_DEVICES") == "3,1");
  CHECK(worker(plan, snapshot, 1).at("LOCAL_RANK") == "1");
}

TEST_CASE("a task with several GPUs has its share of all, or all that it was given") {
  options::Options options = running();
  options.gpus_per_worker = {2, "--gpus-per-worker"};
  const auto device = [&](const std::string& list) {
    const facts::Snapshot snapshot =
        machine(with(step("n1", "2", 2, 0, 1, 1), {{"CUDA_VISIBLE_DEVICES", list}}));
    return test::plan_node(snapshot, options).planned[0].device;
  };
  CHECK(device("0,1,2,3") == "2,3");
  CHECK(device("0,1") == "0,1");
}

TEST_CASE("each worker sees one MIG instance") {
  facts::Snapshot snapshot = machine();
  snapshot.host.gpus = {{"nvidia", ""}};
  snapshot.host.gpus[0].mig = {"MIG-1", "MIG-2"};
  const LaunchPlan plan = test::plan_node(snapshot, running());
  REQUIRE(plan.planned.size() == 2);
  CHECK(worker(plan, snapshot, 1).at("CUDA_VISIBLE_DEVICES") == "MIG-2");
  CHECK(worker(plan, snapshot, 1).at("LOCAL_RANK") == "0");
  CHECK(plan.node->virtual_local_rank.origin == "one MIG instance per process");
}

TEST_CASE("a task with its MIG instance is not told to look for more") {
  facts::Snapshot snapshot = machine(with(step("n1", "2", 2, 0, 1, 1), {{"CUDA_VISIBLE_DEVICES", "MIG-2"}}));
  snapshot.host.gpus = {{"nvidia", ""}};
  snapshot.host.gpus[0].mig = {"MIG-2"};
  const LaunchPlan plan = test::plan_node(snapshot, running());
  CHECK(worker(plan, snapshot, 0).at("LOCAL_RANK") == "0");
  CHECK_FALSE(plan.node->own_device);
  CHECK(notices_of(plan).empty());
}

TEST_CASE("a task that sees all GPUs keeps its local rank") {
  facts::Snapshot snapshot =
      machine(with(step("n1", "4", 4, 0, 3, 3), {{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}}));
  snapshot.host.gpus.assign(4, {"nvidia", ""});
  const LaunchPlan plan = test::plan_node(snapshot, running());
  CHECK(worker(plan, snapshot, 0).at("LOCAL_RANK") == "3");
  CHECK(plan.planned[0].device == "3");
  CHECK(notices_of(plan).empty());
}

TEST_CASE("virtual local ranks take the entries of the list, whatever they are") {
  options::Options options = running();
  options.virtual_local_rank = true;
  for (const auto& [list, first, second] :
       {std::tuple{"2,3", "2", "3"}, std::tuple{"GPU-aaaa,GPU-bbbb", "GPU-aaaa", "GPU-bbbb"},
        std::tuple{"MIG-aaaa,MIG-GPU-bbbb/1/0", "MIG-aaaa", "MIG-GPU-bbbb/1/0"}}) {
    const facts::Snapshot snapshot = machine({{"CUDA_VISIBLE_DEVICES", list}});
    const LaunchPlan plan = test::plan_node(snapshot, options);
    REQUIRE(plan.planned.size() == 2);
    CHECK(worker(plan, snapshot, 0).at("CUDA_VISIBLE_DEVICES") == first);
    CHECK(worker(plan, snapshot, 1).at("CUDA_VISIBLE_DEVICES") == second);
    CHECK(worker(plan, snapshot, 1).at("LOCAL_RANK") == "0");
  }
}

TEST_CASE("without a GPU virtual local ranks have numbers of their own, as torchrun's") {
  options::Options options = running();
  options.virtual_local_rank = true;
  options.workers = options::parse_workers_per_node("2", "--nproc-per-node");
  options.place.workers_per_node = sourced(2, "--nproc-per-node");
  const facts::Snapshot snapshot = machine();
  const LaunchPlan plan = test::plan_node(snapshot, options);
  REQUIRE(plan.planned.size() == 2);
  CHECK(worker(plan, snapshot, 0).at("CUDA_VISIBLE_DEVICES") == "0");
  CHECK(worker(plan, snapshot, 1).at("CUDA_VISIBLE_DEVICES") == "1");
  CHECK(worker(plan, snapshot, 1).at("LOCAL_RANK") == "0");
  options.virtual_local_rank = false;
  CHECK_FALSE(worker(test::plan_node(snapshot, options), snapshot, 0).contains("CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("lists without a device leave one worker without one") {
  for (const char* list : {"", "-1", "NoDevFiles"}) {
    CAPTURE(list);
    facts::Snapshot snapshot = machine({{"CUDA_VISIBLE_DEVICES", list}});
    snapshot.host.gpus = {{"nvidia", ""}, {"nvidia", ""}};
    const LaunchPlan plan = test::plan_node(snapshot, running());
    REQUIRE(plan.planned.size() == 1);
    CHECK(plan.planned[0].device.empty());
  }
}

TEST_CASE("without a visibility variable the vendor's own is narrowed") {
  options::Options options = running();
  options.virtual_local_rank = true;
  for (const auto& [vendor, variable] :
       {std::pair{"nvidia", "CUDA_VISIBLE_DEVICES"}, std::pair{"amd", "HIP_VISIBLE_DEVICES"},
        std::pair{"intel", "ZE_AFFINITY_MASK"}}) {
    facts::Snapshot snapshot = machine();
    snapshot.host.gpus = {{vendor, ""}, {vendor, ""}};
    CHECK(worker(test::plan_node(snapshot, options), snapshot, 1).at(variable) == "1");
  }
}

TEST_CASE("a batch script is told the line that starts ddprun on every node") {
  facts::Environment batch{{"SLURM_JOB_ID", "3"},
                           {"SLURM_JOB_NODELIST", "n[1-4]"},
                           {"SLURM_PROCID", "0"},
                           {"SLURM_CPUS_ON_NODE", "8"},
                           {"ENVIRONMENT", "BATCH"}};
  facts::Snapshot snapshot = machine(batch);
  snapshot.arguments = {"--max-restarts", "3", "train.py", "--name", "it's mine"};
  CHECK(refusal(snapshot) ==
        "job 3 has 4 nodes, but ddprun was started on n1 alone, outside any step of it | start it on every "
        "node with: srun -N4 -n4 --ntasks-per-node=1 -c8 ddprun --max-restarts 3 train.py --name "
        "'it'\\''s mine' | 125");
  options::Options two = running();
  two.place.nodes = sourced(2, "--nnodes");
  snapshot.arguments = {"--nnodes=2", "train.py"};
  CHECK(refusal(snapshot, two).find("srun -N2 -n2 --ntasks-per-node=1 -c8 ddprun --nnodes=2 train.py") !=
        std::string::npos);
}

TEST_CASE("the components of a heterogeneous job are started together") {
  CHECK(refusal(machine({{"SLURM_JOB_ID", "3"},
                         {"SLURM_HET_SIZE", "2"},
                         {"SLURM_JOB_NODELIST_HET_GROUP_0", "n1"},
                         {"SLURM_JOB_NODELIST_HET_GROUP_1", "n[2-3]"},
                         {"ENVIRONMENT", "BATCH"}})) ==
        "job 3 has 3 nodes, but ddprun was started on n1 alone, outside any step of it | start it on every "
        "node with: srun --het-group=0-1 --ntasks-per-node=1 ddprun train.py | 125");
}

TEST_CASE("a shell of salloc on the submit host is none of the job's nodes") {
  const auto at_login = [](const std::string& hosts) {
    return refusal(machine({{"SLURM_JOB_ID", "3"}, {"SLURM_JOB_NODELIST", hosts}}, "login1"));
  };
  CHECK(at_login("n7") ==
        "job 3 has 1 node, but ddprun was started on login1, which is not that node, outside any step of it "
        "| start "
        "it on that node with: srun -N1 -n1 --ntasks-per-node=1 ddprun train.py | 125");
  CHECK(
      at_login("n[7-8]").starts_with("job 3 has 2 nodes, but ddprun was started on login1, which is not one "
                                     "of them, outside any step of it | "));
}

TEST_CASE("one node of four is worth a remark") {
  const facts::Snapshot snapshot = machine(
      with(step("n2", "1", 1, 0, 0, 0), {{"SLURM_JOB_NODELIST", "n[1-4]"}, {"SLURM_JOB_NUM_NODES", "4"}}),
      "n2");
  const LaunchPlan plan = test::plan_node(snapshot, running());
  REQUIRE(notices_of(plan).size() == 1);
  CHECK(notices_of(plan)[0] ==
        allocation::Notice{"the step has 1 of the job's 4 nodes (n2)",
                           "to use all of them: srun -N4 ...; if this is intended, add --nnodes 1"});
  CHECK(plan.node->rendezvous.role == RendezvousRole::solo);
}

TEST_CASE("the scheduler's tasks and several workers each exclude each other") {
  options::Options options = running();
  options.workers = options::parse_workers_per_node("8", "--nproc-per-node");
  options.place.workers_per_node = sourced(8, "--nproc-per-node");
  CHECK(refusal(machine(step("n1", "8", 8, 0, 5, 5)), options) ==
        "srun started 8 ddprun processes on n1, but --nproc-per-node 8 asks each of them for 8 workers: 64 "
        "in all | start one ddprun per node (srun --ntasks-per-node=1 ...), or leave --nproc-per-node out to "
        "get one worker per task | 2");
}

TEST_CASE("launches past a limit are refused before anything is built for them") {
  CHECK(refusal(machine(step("n[1-100]", "65535(x100)", 6553500, 0, 5, 5))) ==
        "SLURM_STEP_TASKS_PER_NODE counts 6553500 ddprun processes, more than 262144 | start one ddprun per "
        "node: srun --ntasks-per-node=1 ... | 125");
  options::Options options = running();
  options.workers = options::parse_workers_per_node("4096", "--nproc-per-node");
  options.place.workers_per_node = sourced(4096, "--nproc-per-node");
  CHECK(
      refusal(machine(step("n[1-5000]", "1(x5000)", 5000, 0, 0, 0)), options) ==
      "5000 nodes with 4096 workers each are 20480000 in all, more than 16777216 | start fewer workers with "
      "--nproc-per-node | 125");
}

TEST_CASE("a program that cannot be started is told with the host") {
  facts::Snapshot snapshot = machine();
  const auto start = [&](const std::string& word, facts::ProgramFacts facts) {
    snapshot.programs = {{word, std::move(facts)}};
    options::Options options = running({word});
    options.no_python = true;
    return refusal(snapshot, options);
  };
  CHECK(start("trian.py", {}) ==
        "cannot start trian.py on n1: no such file | it is neither in /home/u/run nor on PATH | 127");
  CHECK(start("sub/train.py", {}) ==
        "cannot start sub/train.py on n1: no such file | the working directory is /home/u/run | 127");
  CHECK(start("train.sh", {facts::ProgramKind::missing, "train.sh"}) ==
        "cannot start train.sh on n1: no such file | it is in /home/u/run, but not on PATH: write ./train.sh "
        "| 127");
  CHECK(start("./my file", {facts::ProgramKind::not_executable, "./my file"}) ==
        "cannot start ./my file on n1: it is not executable | chmod +x './my file' | 126");
  CHECK(start("src", {facts::ProgramKind::directory, "src"}) ==
        "cannot start src on n1: it is a directory |  | 126");
}

TEST_CASE("a plan without a program has workers without a command") {
  const LaunchPlan plan = test::plan_node(machine(), running({}));
  REQUIRE(plan.planned.size() == 1);
  CHECK(plan.planned[0].command.empty());
}

TEST_CASE("the run id is the user's, else the step's, else the job's, else unlike any other") {
  options::Options options = running();
  CHECK(show(test::plan_node(machine(), options).node->run_id) == "1700000000.77 <- time and process");
  CHECK(show(test::plan_node(machine(step("n1", "1", 1, 0, 0, 0)), options).node->run_id) ==
        "29.0 <- SLURM_JOB_ID and SLURM_STEP_ID");
  CHECK(show(test::plan_node(machine({{"SLURM_JOB_ID", "29"}, {"SLURM_JOB_NODELIST", "n1"}}), options)
                 .node->run_id) == "29 <- SLURM_JOB_ID");
  options.place.run_id = sourced(std::string("job7"), "--rdzv-id");
  CHECK(show(test::plan_node(machine(), options).node->run_id) == "job7 <- --rdzv-id");
}

TEST_CASE("under Slurm and PBS the default grace ends before theirs") {
  options::Options options = running();
  const facts::Snapshot in_step = machine(step("n1", "1", 1, 0, 0, 0));
  const auto grace = test::plan_node(in_step, options).node->options.shutdown_timeout;
  CHECK(grace.value == Milliseconds{25000});
  CHECK(grace.origin == "default below Slurm's KillWait");
  CHECK(test::plan_node(machine(), options).node->options.shutdown_timeout.value == Milliseconds{30000});
  facts::Snapshot in_pbs = machine();
  in_pbs.environment.insert({{"PBS_JOBID", "0.ctl"}, {"PBS_NODEFILE", "/aux/0.ctl"}});
  in_pbs.files["/aux/0.ctl"] = in_pbs.host.name + "\n";
  CHECK(test::plan_node(in_pbs, options).node->options.shutdown_timeout ==
        sourced(Milliseconds{5000}, "default below PBS' kill_delay"));
  options.shutdown_timeout = {Milliseconds{90000}, "--shutdown-timeout"};
  CHECK(test::plan_node(in_step, options).node->options.shutdown_timeout.value == Milliseconds{90000});
}

TEST_CASE("a requeue that can never happen is said at the start") {
  options::Options options = running();
  const auto said = [&] {
    std::string text;
    for (const auto& notice : notices_of(test::plan_node(machine(), options)))
      text += notice.what + " | " + notice.hint + "\n";
    return text;
  };
  CHECK(said().empty());
  options.time_limit.requeue = sourced(3, "--requeue");
  CHECK(said() ==
        "--requeue has no effect without --signal-before-end, --checkpoint-flush or --requeue-on | add "
        "--signal-before-end USR1@120 to requeue the job at its time limit, or --requeue-on CODES\n");
  options.time_limit.resumes = true;
  CHECK(said().empty());
  options.time_limit.resumes = false;
  options.time_limit.requeue_on = sourced(std::vector{85}, "--requeue-on");
  CHECK(said().empty());
  options.time_limit.requeue.reset();
  CHECK(said() == "--requeue-on has no effect without --requeue | add --requeue\n");
}

TEST_CASE("the store is ddprun's, but the worker's when asked for and in a world of one") {
  const auto uses_agent_store = [](const options::Options& options) {
    const facts::Snapshot snapshot = machine();
    return worker(test::plan_node(snapshot, options), snapshot, 0).at("TORCHELASTIC_USE_AGENT_STORE");
  };
  options::Options options = running();
  CHECK(uses_agent_store(options) == "False");
  options.workers = options::parse_workers_per_node("2", "--nproc-per-node");
  CHECK(uses_agent_store(options) == "True");
  options.store = options::StoreHost::worker;
  CHECK(uses_agent_store(options) == "False");
}

TEST_CASE("address and port of a single ddprun follow from the options") {
  const facts::Snapshot snapshot = machine();
  options::Options options = running();
  LaunchPlan plan = test::plan_node(snapshot, options);
  CHECK(show(plan.node->solo_address) == "127.0.0.1 <- no other host takes part");
  CHECK_FALSE(worker(plan, snapshot, 0).contains("MASTER_PORT"));
  options.place.port = sourced(29600, "--master-port");
  options.place.address = sourced(std::string("n1"), "--master-addr");
  plan = test::plan_node(snapshot, options);
  CHECK(show(plan.node->solo_address) == "n1 <- --master-addr");
  CHECK(worker(plan, snapshot, 0).at("MASTER_PORT") == "29600");
  options.local_address = sourced(std::string("10.0.0.7"), "--local-addr");
  CHECK(show(test::plan_node(snapshot, options).node->solo_address) == "10.0.0.7 <- --local-addr");
}

TEST_CASE("a port that was asked for is the store's too, unless rank 0 hosts that") {
  const facts::Snapshot snapshot = machine(step("n[1-2]", "1(x2)", 2, 0, 0, 0));
  options::Options options = running();
  options.place.port = sourced(29600, "--master-port");
  CHECK(worker(test::plan_node(snapshot, options), snapshot, 0).at("MASTER_PORT") == "29600");
  options.store = options::StoreHost::worker;
  CHECK_FALSE(worker(test::plan_node(snapshot, options), snapshot, 0).contains("MASTER_PORT"));
}

TEST_CASE("agents look for the first host at ports they all know") {
  const facts::Snapshot snapshot = machine(step("n[1-2]", "1(x2)", 2, 1, 1, 0), "n2");
  options::Options options = running();
  RendezvousPlan plan = test::plan_node(snapshot, options).node->rendezvous;
  CHECK(plan.role == RendezvousRole::member);
  CHECK(plan.agents == 2);
  CHECK(plan.agent == AgentIndex{1});
  CHECK(plan.addresses == sourced(std::vector<std::string>{"n1"}, "SLURM_STEP_NODELIST, first host"));
  CHECK(plan.ports.origin == "follows from slurm/29/0/0");
  facts::Snapshot reserved = snapshot;
  reserved.environment["SLURM_STEP_RESV_PORTS"] = "12000-12002";
  CHECK(test::plan_node(reserved, options).node->rendezvous.ports ==
        sourced(std::vector<int>{12002, 12001, 12000}, "SLURM_STEP_RESV_PORTS, from the end"));
  options.place.port = sourced(29600, "--master-port");
  options.place.address = sourced(std::string("10.0.0.1"), "--master-addr");
  plan = test::plan_node(reserved, options).node->rendezvous;
  CHECK(plan.ports == sourced(std::vector<int>{29600}, "--master-port"));
  CHECK(plan.addresses == sourced(std::vector<std::string>{"10.0.0.1", "n1"},
                                  "--master-addr, then SLURM_STEP_NODELIST, first host"));
}

TEST_CASE("ranks and sizes that assume equal nodes say so") {
  options::Options options = running();
  options.workers = options::parse_workers_per_node("4", "--nproc-per-node");
  const auto on_node = [&](int node) {
    return test::plan_node(machine(step("n[1-2]", "1(x2)", 2, node, node, 0), fmt::format("n{}", node + 1)),
                           options);
  };
  CHECK(on_node(0).node->rank_origin == "node order, then local rank");
  CHECK(on_node(1).node->rank_origin == "node order, then local rank, if all nodes have 4 workers");
  CHECK(on_node(1).planned[2].rank == GlobalRank{6});
  CHECK(show(on_node(0).node->world_size) == "8 <- 2 nodes, if all have 4 workers");
  CHECK(test::plan_node(machine(step("n[1-2]", "2(x2)", 4, 1, 3, 1), "n2"), running()).node->rank_origin ==
        "SLURM_PROCID");
  CHECK(test::plan_node(machine(), running()).node->rank_origin == "order on this host");
}
