#include "plan/worker_env.hpp"
#include "plan/finalise.hpp"

#include <algorithm>
#include <functional>
#include <memory>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

NodeProposal node_of(allocation::LaunchStyle style, int workers) {
  NodeProposal node;
  node.allocation.style = {style, "test"};
  node.allocation.hosts = {{{"n1", 1}, {"n2", 1}}, "SLURM_STEP_NODELIST"};
  node.workers = {workers, "test"};
  node.run_id = {"29.0", "SLURM_JOB_ID"};
  node.device_variable = "CUDA_VISIBLE_DEVICES";
  node.rendezvous.agents = 2;
  node.options.max_restarts = {3, "--max-restarts"};
  for (int i = 0; i < workers; ++i)
    node.offered.push_back({LocalRank{i}, GlobalRank{i}, {"true"}, std::to_string(i + 4)});
  return node;
}

Assignment second_node(int workers) {
  Assignment assignment;
  assignment.attempt = Attempt{2};
  assignment.world_size = 2 * workers;
  assignment.local_world_size = workers;
  assignment.node = NodeIndex{1};
  assignment.node_count = 2;
  assignment.master_address = "10.0.0.1";
  assignment.master_port = 41234;
  assignment.several_workers = workers > 1;
  assignment.workers_of_nodes = std::to_string(workers) + "(x2)";
  assignment.run_id = "29.0";
  assignment.launch_id = "beef";
  for (int i = 0; i < workers; ++i) {
    assignment.workers.push_back({GlobalRank{workers + i}, LocalRank{i}, workers + i, 2 * workers});
  }
  return assignment;
}

using Change = std::function<void(LaunchPlan&)>;

facts::Environment environment_of(const NodeProposal& node, const Assignment& assignment,
                                  facts::Environment base, const WorkerContext& context,
                                  const Change& change = {}) {
  LaunchPlan plan = finalise(std::make_shared<const NodeProposal>(node), assignment, {});
  plan.threads = {6, "12 cores for 2 workers"};
  if (change) change(plan);
  return apply_changes(base, make_worker_changes(plan, base, context));
}

}  // namespace

TEST_CASE("a worker gets torchrun's variables with torchrun's spellings") {
  const NodeProposal node = node_of(allocation::LaunchStyle::agent_per_node, 2);
  const facts::Environment worker =
      environment_of(node, second_node(2), {{"PATH", "/bin"}},
                     {1, "/tmp/x/1/error.json", "cafe", "hsn0", "", "/tmp/x/1/progress_1"});
  const facts::Environment expected{
      {"PATH", "/bin"},
      {"RANK", "3"},
      {"LOCAL_RANK", "1"},
      {"WORLD_SIZE", "4"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", "3"},
      {"ROLE_WORLD_SIZE", "4"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "41234"},
      {"TORCHELASTIC_RESTART_COUNT", "2"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_RUN_ID", "29.0"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_ERROR_FILE", "/tmp/x/1/error.json"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"PYTHONUNBUFFERED", "1"},
      {"OMP_NUM_THREADS", "6"},
      {"GLOO_SOCKET_IFNAME", "hsn0"},
      {"NCCL_SOCKET_IFNAME", "=hsn0"},
      {"DDPRUN_LAUNCH_ID", "beef"},
      {"DDPRUN_AGENT_ID", "cafe"},
      {"DDPRUN_PROGRESS_FILE", "/tmp/x/1/progress_1"},
      {"DDPRUN_WORKER_VARIABLES",
       ":RANK,LOCAL_RANK,WORLD_SIZE,LOCAL_WORLD_SIZE,GROUP_RANK,GROUP_WORLD_SIZE,"
       "ROLE_NAME,ROLE_RANK,ROLE_WORLD_SIZE,MASTER_ADDR,MASTER_PORT,"
       "TORCHELASTIC_RESTART_COUNT,TORCHELASTIC_MAX_RESTARTS,TORCHELASTIC_RUN_ID,"
       "TORCHELASTIC_USE_AGENT_STORE,TORCHELASTIC_ERROR_FILE,"
       "TORCHELASTIC_SIGNALS_TO_HANDLE,OMP_NUM_THREADS,"
       "TORCH_NCCL_ASYNC_ERROR_HANDLING,PYTHONUNBUFFERED,GLOO_SOCKET_IFNAME,"
       "NCCL_SOCKET_IFNAME,"
       "DDPRUN_LAUNCH_ID,DDPRUN_AGENT_ID,DDPRUN_PROGRESS_FILE"}};
  CHECK(worker == expected);
}

TEST_CASE("what the user or the site has set is left alone") {
  NodeProposal node = node_of(allocation::LaunchStyle::agent_per_node, 2);
  const Change is_set = [](LaunchPlan& plan) { plan.threads.value = 0; };  // OMP_NUM_THREADS
  const facts::Environment worker = environment_of(node, second_node(2),
                                                   {{"OMP_NUM_THREADS", "3"},
                                                    {"GLOO_SOCKET_IFNAME", "eth7"},
                                                    {"NCCL_SOCKET_IFNAME", "hsn"},
                                                    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"},
                                                    {"PYTHONUNBUFFERED", ""}},
                                                   {0, "", "cafe", "hsn0"}, is_set);
  CHECK(worker.at("OMP_NUM_THREADS") == "3");
  CHECK(worker.at("GLOO_SOCKET_IFNAME") == "eth7");
  CHECK(worker.at("NCCL_SOCKET_IFNAME") == "hsn");
  CHECK(worker.at("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "0");
  CHECK(worker.at("PYTHONUNBUFFERED").empty());
}

TEST_CASE("on one host no socket interface is prescribed") {
  const facts::Environment worker =
      environment_of(node_of(allocation::LaunchStyle::alone, 2), second_node(2), {}, {0, "", "cafe", ""});
  CHECK_FALSE(worker.contains("GLOO_SOCKET_IFNAME"));
  CHECK_FALSE(worker.contains("NCCL_SOCKET_IFNAME"));
}

TEST_CASE("the store is the worker's when asked for, and in a world of one") {
  options::Options options;
  CHECK_FALSE(worker_hosts_store(options, 2));
  CHECK(worker_hosts_store(options, 1));
  options.store = options::StoreHost::worker;
  CHECK(worker_hosts_store(options, 2));

  NodeProposal node = node_of(allocation::LaunchStyle::agent_per_node, 2);
  node.options.store = options::StoreHost::worker;
  CHECK(environment_of(node, second_node(2), {}, {0, "", "cafe", ""}).at("TORCHELASTIC_USE_AGENT_STORE") ==
        "False");
}

TEST_CASE("virtual local ranks: local rank 0 and one device each") {
  NodeProposal node = node_of(allocation::LaunchStyle::agent_per_node, 2);
  node.virtual_local_rank = {true, "--virtual-local-rank"};
  const facts::Environment worker = environment_of(node, second_node(2), {}, {1, "", "cafe", ""});
  CHECK(worker.at("LOCAL_RANK") == "0");
  CHECK(worker.at("CUDA_VISIBLE_DEVICES") == "5");
  CHECK(worker.at("RANK") == "3");
}

TEST_CASE("workers of several GPUs see theirs alone and keep their local rank") {
  NodeProposal node = node_of(allocation::LaunchStyle::agent_per_node, 2);
  node.options.gpus_per_worker = {2, "--gpus-per-worker"};
  node.offered[1].device = "6,7";
  const facts::Environment worker = environment_of(node, second_node(2), {}, {1, "", "cafe", ""});
  CHECK(worker.at("CUDA_VISIBLE_DEVICES") == "6,7");
  CHECK(worker.at("LOCAL_RANK") == "1");
}

TEST_CASE("tasks that can open each other's GPUs see them all and have their real local rank") {
  NodeProposal node = node_of(allocation::LaunchStyle::agent_per_task, 1);
  node.own_device = true;
  node.virtual_local_rank = {true, "one visible GPU per task"};
  node.gpus = {{"nvidia", "0000:01:00.0"}, {"nvidia", "0000:02:00.0"}};
  node.offered[0].device = "1";
  Assignment assignment = second_node(1);
  assignment.local_world_size = 2;
  assignment.workers = {{GlobalRank{3}, LocalRank{1}, 3, 4}};
  assignment.local_peers = {{LocalRank{0}, false, {{"0", {"0000:01:00.0"}}}},
                            {LocalRank{1}, false, {{"1", {"0000:02:00.0"}}}}};
  const auto show = [&] {
    const facts::Environment worker =
        environment_of(node, assignment, {{"CUDA_VISIBLE_DEVICES", "1"}}, {0, "", "cafe", ""});
    return worker.at("LOCAL_RANK") + " of " + worker.at("CUDA_VISIBLE_DEVICES");
  };
  CHECK(show() == "1 of 0,1");
  node.own_device = false;  // --virtual-local-rank is the user's wish
  CHECK(show() == "0 of 1");
  node.own_device = true;
  assignment.local_world_size = 3;  // somebody is missing
  CHECK(show() == "0 of 1");
  assignment.local_peers.clear();
  CHECK(show() == "0 of 1");
}

TEST_CASE("a worker is told its network card unless the user or the site has") {
  NodeProposal node = node_of(allocation::LaunchStyle::agent_per_node, 2);
  node.options.nic = {true, "--nic"};
  const Change cards = [](LaunchPlan& plan) {
    plan.planned[0].network_card = "mlx5_3";
    plan.planned[1].network_card = "cxi1";
  };
  const auto of_worker = [&](std::size_t worker, const facts::Environment& base) {
    return environment_of(node, second_node(2), base, {worker, "", "cafe", ""}, cards);
  };
  CHECK(of_worker(0, {}).at("NCCL_IB_HCA") == "=mlx5_3");
  CHECK(of_worker(1, {}).at("FI_CXI_DEVICE_NAME") == "cxi1");
  CHECK_FALSE(of_worker(1, {}).contains("NCCL_IB_HCA"));
  CHECK(of_worker(0, {{"NCCL_IB_HCA", "mlx5"}}).at("NCCL_IB_HCA") == "mlx5");
  node.site.profile.name = "a site";
  node.site.profile.environment = {{"NCCL_IB_HCA", "mlx5_0,mlx5_1"}};
  CHECK(of_worker(0, {}).at("NCCL_IB_HCA") == "mlx5_0,mlx5_1");
}

TEST_CASE("OpenMP's places follow the binding unless the user has set them") {
  NodeProposal node = node_of(allocation::LaunchStyle::agent_per_node, 2);
  const Change places = [](LaunchPlan& plan) { plan.planned[0].omp_places = "{0,8},{1,9}"; };
  const facts::Environment worker = environment_of(node, second_node(2), {}, {0, "", "cafe", ""}, places);
  CHECK(worker.at("OMP_PLACES") == "{0,8},{1,9}");
  CHECK(worker.at("OMP_PROC_BIND") == "close");
  const facts::Environment other = environment_of(node, second_node(2), {}, {1, "", "cafe", ""}, places);
  CHECK_FALSE(other.contains("OMP_PLACES"));
  CHECK_FALSE(other.contains("OMP_PROC_BIND"));
  const facts::Environment user{{"OMP_PLACES", "cores"}, {"OMP_PROC_BIND", "spread"}};
  const facts::Environment kept = environment_of(node, second_node(2), user, {0, "", "cafe", ""}, places);
  CHECK(kept.at("OMP_PLACES") == "cores");
  CHECK(kept.at("OMP_PROC_BIND") == "spread");
}

TEST_CASE("the agent's own ranks do not reach several workers") {
  const facts::Environment agent{{"PMI_RANK", "1"},
                                 {"PMIX_RANK", "1"},
                                 {"OMPI_COMM_WORLD_RANK", "1"},
                                 {"SLURM_PMIX_MAPPING", ""},
                                 {"PALS_RANKID", "1"},
                                 {"OMPI_MCA_btl", "tcp"},
                                 {"I_MPI_PIN", "1"},
                                 {"OMPI_MCA_orte_num_nodes", "2"},
                                 {"SLURM_JOB_ID", "29"},
                                 {"PMIX_MCA_gds", "hash"},
                                 {"PATH", "/bin"}};
  allocation::Allocation allocation;
  allocation.style.value = allocation::LaunchStyle::agent_per_node;
  std::vector<std::string> removed;
  for (const auto& change : scrub_changes(agent, allocation, 2)) {
    CHECK_FALSE(change.value);
    removed.push_back(change.name);
  }
  CHECK(removed == std::vector<std::string>{"OMPI_COMM_WORLD_RANK", "OMPI_MCA_orte_num_nodes", "PALS_RANKID",
                                            "PMIX_RANK", "PMI_RANK", "SLURM_PMIX_MAPPING"});
  CHECK(scrub_changes(agent, allocation, 1).empty());
  allocation.style.value = allocation::LaunchStyle::agent_per_task;
  CHECK(scrub_changes(agent, allocation, 2).empty());
}

TEST_CASE("Slurm's numbers are those of the worker where one agent starts several") {
  const facts::Environment agent{{"SLURM_PROCID", "1"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "2"}};
  const facts::Environment several = environment_of(node_of(allocation::LaunchStyle::agent_per_node, 2),
                                                    second_node(2), agent, {1, "", "cafe", ""});
  CHECK(several.at("SLURM_PROCID") == "3");
  CHECK(several.at("SLURM_LOCALID") == "1");
  CHECK(several.at("SLURM_NTASKS") == "4");
  CHECK_FALSE(several.contains("SLURM_NPROCS"));
  const facts::Environment one = environment_of(node_of(allocation::LaunchStyle::agent_per_task, 1),
                                                second_node(1), agent, {0, "", "cafe", ""});
  CHECK(one.at("SLURM_PROCID") == "1");
  CHECK(one.at("SLURM_NTASKS") == "2");
}

TEST_CASE("a node's only worker gets Slurm's numbers of a worker where another node has several") {
  const facts::Environment agent{{"SLURM_PROCID", "1"},
                                 {"SLURM_NTASKS", "2"},
                                 {"SLURM_TASKS_PER_NODE", "1(x2)"},
                                 {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                 {"SLURM_GTIDS", "1"},
                                 {"PMI_RANK", "1"}};
  Assignment uneven = second_node(1);
  uneven.several_workers = true;
  uneven.world_size = 3;
  uneven.workers_of_nodes = "2,1";
  uneven.workers.front().rank = GlobalRank{2};
  const NodeProposal node = node_of(allocation::LaunchStyle::agent_per_node, 1);
  const facts::Environment worker = environment_of(node, uneven, agent, {0, "", "cafe", ""});
  CHECK(worker.at("RANK") == "2");
  CHECK(worker.at("SLURM_PROCID") == "2");
  CHECK(worker.at("SLURM_NTASKS") == "3");
  CHECK(worker.at("SLURM_TASKS_PER_NODE") == "2,1");
  CHECK(worker.at("SLURM_STEP_TASKS_PER_NODE") == "2,1");
  CHECK(worker.at("SLURM_GTIDS") == "2");
  CHECK_FALSE(worker.contains("PMI_RANK"));
  uneven.workers_of_nodes.clear();  // too long to send
  CHECK_FALSE(environment_of(node, uneven, agent, {0, "", "cafe", ""}).contains("SLURM_TASKS_PER_NODE"));
}

TEST_CASE("the run's id is the coordinator's on all nodes") {
  Assignment assignment = second_node(2);
  assignment.run_id = "1700000000.4711";
  const facts::Environment worker = environment_of(node_of(allocation::LaunchStyle::agent_per_node, 2),
                                                   assignment, {}, {0, "", "cafe", ""});
  CHECK(worker.at("TORCHELASTIC_RUN_ID") == "1700000000.4711");
}

TEST_CASE("changes set and remove, and strings are as exec wants them") {
  const facts::Environment changed =
      apply_changes({{"A", "1"}, {"B", "2"}}, {{"A", std::nullopt, ""}, {"C", "x=y", ""}});
  CHECK(make_environment_strings(changed) == std::vector<std::string>{"B=2", "C=x=y"});
}

namespace {

NodeProposal python_node() {
  NodeProposal node = node_of(allocation::LaunchStyle::agent_per_node, 2);
  for (OfferedWorker& worker : node.offered) worker.command = {"/venv/bin/python3", "-u", "train.py"};
  return node;
}

const WorkerContext k_looked_into{
    0, "", "cafe", "", "", "", "/tmp/x/inspection", "/tmp/x/1/inspect_0", "/logs/29/fr_", "127.0.0.1:41235"};

}  // namespace

TEST_CASE("a Python worker finds ddprun's module before the user's own folders") {
  const NodeProposal node = python_node();
  const auto path_of = [&](const facts::Environment& base) {
    return environment_of(node, second_node(2), base, k_looked_into).at("PYTHONPATH");
  };
  CHECK(path_of({}) == "/tmp/x/inspection");
  CHECK(path_of({{"PYTHONPATH", ""}}) ==
        "/tmp/x/inspection");  // no colon: it would name the working directory
  CHECK(path_of({{"PYTHONPATH", "/lib:/more"}}) == "/tmp/x/inspection:/lib:/more");
  const facts::Environment worker = environment_of(node, second_node(2), {}, k_looked_into);
  CHECK(worker.at("DDPRUN_INSPECT") == "/tmp/x/1/inspect_0");
  const std::string& dropped = worker.at("DDPRUN_WORKER_VARIABLES");  // by a job that the worker submits
  CHECK(dropped.find(",DDPRUN_INSPECT") != std::string::npos);
  CHECK(dropped.find("PYTHONPATH") == std::string::npos);
}

TEST_CASE("a site's PYTHONPATH stays behind ddprun's module") {
  NodeProposal node = python_node();
  node.site.profile.environment = {{"PYTHONPATH", "/site"}};
  CHECK(environment_of(node, second_node(2), {}, k_looked_into).at("PYTHONPATH") ==
        "/tmp/x/inspection:/site");
}

TEST_CASE("the place of another ddprun's worker is not handed on to a worker that has none") {
  const facts::Environment outer{{"DDPRUN_INSPECT", "/tmp/outer/inspect_0"}, {"PYTHONPATH", "/outer"}};
  const facts::Environment worker = environment_of(python_node(), second_node(2), outer, {0, "", "cafe", ""});
  CHECK_FALSE(worker.contains("DDPRUN_INSPECT"));
  CHECK(worker.at("PYTHONPATH") == "/outer");
}

TEST_CASE("workers are told where checkpoints are and which one they start from, or lose another ddprun's") {
  const facts::Environment outer{{"DDPRUN_CHECKPOINTS", "/outer"}, {"DDPRUN_CHECKPOINT_STEP", "7"}};
  const NodeProposal node = node_of(allocation::LaunchStyle::agent_per_node, 2);
  const facts::Environment without = environment_of(node, second_node(2), outer, {0, "", "cafe", ""});
  CHECK_FALSE(without.contains("DDPRUN_CHECKPOINTS"));
  CHECK_FALSE(without.contains("DDPRUN_CHECKPOINT_STEP"));
  const auto with = [&](std::optional<std::int64_t> step) {
    return environment_of(node, second_node(2), outer, {0, "", "cafe", ""}, [&](LaunchPlan& plan) {
      plan.checkpoints = {"/dev/shm/x", "/dev/shm/x/.socket", step};
    });
  };
  CHECK(with(0).at("DDPRUN_CHECKPOINTS") == "/dev/shm/x");
  CHECK(with(0).at("DDPRUN_CHECKPOINT_SOCKET") == "/dev/shm/x/.socket");
  CHECK(with(0).at("DDPRUN_CHECKPOINT_STEP") == "0");
  CHECK_FALSE(with({}).contains("DDPRUN_CHECKPOINT_STEP"));
}

TEST_CASE("torch loads the module in a Python that takes PYTHONPATH, and where its users leave it on") {
  options::Options options;
  const std::vector<std::string> python{"python3", "-u", "train.py"};
  CHECK(is_inspected(options, python, {}));
  CHECK(is_inspected(options, python, {{"TORCH_DEVICE_BACKEND_AUTOLOAD", "1"}}));
  CHECK_FALSE(is_inspected(options, python, {{"TORCH_DEVICE_BACKEND_AUTOLOAD", "0"}}));
  CHECK_FALSE(is_inspected(options, {"python3", "-I", "train.py"}, {}));
  CHECK_FALSE(is_inspected(options, {"bash", "train.sh"}, {}));
  CHECK_FALSE(is_inspected(options, {}, {}));
  options.hang.inspect = {false, "--no-inspect"};
  CHECK_FALSE(is_inspected(options, python, {}));
}

TEST_CASE("torch's flight recorder is on, and as the user has set it; what NCCL has is for GPUs alone") {
  NodeProposal node = python_node();
  const auto worker = [&](const facts::Environment& base) {
    return environment_of(node, second_node(2), base, k_looked_into);
  };
  CHECK(worker({}).at("TORCH_FR_BUFFER_SIZE") == "2000");  // gloo's, for torch 2.10
  CHECK(worker({{"TORCH_FR_BUFFER_SIZE", "0"}}).at("TORCH_FR_BUFFER_SIZE") == "0");
  CHECK_FALSE(worker({}).contains("TORCH_FR_DUMP_ON_TIMEOUT"));
  CHECK_FALSE(asks_nccl_ras(node));
  node.gpus = {{"amd", "0000:01:00.0"}};
  CHECK(worker({}).contains("TORCH_FR_DUMP_ON_TIMEOUT"));
  CHECK_FALSE(asks_nccl_ras(node));
  node.gpus = {{"nvidia", "0000:01:00.0"}};
  CHECK(asks_nccl_ras(node));
  const facts::Environment all = worker({{"TORCH_NCCL_TRACE_BUFFER_SIZE", "0"}});
  CHECK(all.at("TORCH_FR_BUFFER_SIZE") == "2000");
  CHECK(all.at("TORCH_NCCL_TRACE_BUFFER_SIZE") == "0");
  CHECK(all.at("TORCH_FR_DUMP_ON_TIMEOUT") == "1");
  CHECK(all.at("TORCH_NCCL_DUMP_ON_TIMEOUT") == "1");
  CHECK(all.at("TORCH_FR_DUMP_TEMP_FILE") == "/logs/29/fr_");
  CHECK(all.at("TORCH_NCCL_DEBUG_INFO_TEMP_FILE") == "/logs/29/fr_");
  CHECK(all.at("NCCL_RAS_ADDR") == "127.0.0.1:41235");
  CHECK(worker({{"NCCL_RAS_ADDR", "n1:28028"}}).at("NCCL_RAS_ADDR") == "n1:28028");
  const facts::Environment unlogged = environment_of(node, second_node(2), {}, {0, "", "cafe", ""});
  CHECK(unlogged.at("TORCH_FR_BUFFER_SIZE") == "2000");
  CHECK_FALSE(unlogged.contains("TORCH_FR_DUMP_TEMP_FILE"));
  node.options.hang.inspect = {false, "--no-inspect"};
  CHECK_FALSE(worker({}).contains("TORCH_FR_BUFFER_SIZE"));
}
