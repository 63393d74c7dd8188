#include "plan/bind_workers.hpp"

#include "allocation/detection/detect.hpp"
#include "catch.hpp"
#include "facts/proc_text.hpp"
#include "node_builder.hpp"
#include "plan/gpu_count.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::plan;
using namespace ddprun::test;

namespace {

constexpr const char* k_addresses[] = {"0000:01:00.0", "0000:41:00.0", "0000:81:00.0", "0000:c1:00.0"};

// Four NUMA nodes of four cores with two threads, a GPU on each, the last node's first.
facts::Snapshot polaris() {
  facts::Snapshot snapshot;
  facts::HostFacts& host = snapshot.host;
  host.name = "n1";
  host.topology = build_topology({1, 4, 1, 4, 2});
  for (int gpu = 0; gpu < 4; ++gpu) {
    add_device(*host.topology, facts::DeviceKind::gpu, k_addresses[gpu], 3 - gpu);
    host.gpus.push_back({"nvidia", k_addresses[gpu]});
  }
  host.allowed_cpus = facts::all_cpus(*host.topology);
  host.allowed_cores = 16;
  host.online_cpus = 32;
  host.allowed_memory_nodes = {0, 1, 2, 3};
  snapshot.arguments = {"train.py"};
  return snapshot;
}

// A task of a step of two nodes with four tasks each.
facts::Snapshot task(int local, facts::Environment more = {}) {
  facts::Snapshot snapshot = polaris();
  snapshot.environment = {{"SLURM_JOB_ID", "29"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NODELIST", "n[1-2]"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                          {"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_NODEID", "0"},
                          {"SLURM_PROCID", std::to_string(local)},
                          {"SLURM_LOCALID", std::to_string(local)}};
  snapshot.environment.insert(more.begin(), more.end());
  return snapshot;
}

options::Options running() {
  options::Options options;
  options.command = {"train.py"};
  return options;
}

std::vector<std::string> bound(const LaunchPlan& plan) {
  std::vector<std::string> lists;
  for (const PlannedWorker& worker : plan.planned)
    lists.push_back(facts::render_cpu_list(worker.binding.cpus));
  return lists;
}

using Lists = std::vector<std::string>;

LocalPeer local_peer(int local, bool same_cpus, std::vector<std::string> gpus) {
  return {LocalRank{local}, same_cpus, {LocalPeerWorker{std::to_string(local), std::move(gpus)}}};
}

}  // namespace

TEST_CASE("one agent binds each worker near its own GPU, whatever the order of the GPUs") {
  const facts::Snapshot snapshot = polaris();
  const LaunchPlan plan = plan_node(snapshot, running());
  CHECK(bound(plan) == Lists{"12-15,28-31", "8-11,24-27", "4-7,20-23", "0-3,16-19"});
  CHECK(plan.planned[1].binding.memory_nodes == std::vector<int>{2});
  CHECK(plan.planned[1].binding.policy == facts::MemoryPolicy::preferred);
  CHECK(plan.binding.spare.empty());
}

TEST_CASE("what the driver's files say about locality counts where the topology has no such device") {
  facts::Snapshot snapshot = polaris();
  snapshot.host.topology->devices.clear();
  snapshot.host.gpus = {{"nvidia", "00000000:99:00.0", {}, {4, 5, 6, 7, 20, 21, 22, 23}, {}}};
  options::Options options = running();
  options.bind = options::parse_bind("near", "--bind");
  const LaunchPlan plan = plan_node(snapshot, options);
  CHECK(bound(plan) == Lists{"4-7,20-23"});
  CHECK(facts::render_cpu_list(plan.binding.spare) == "0-3,8-19,24-31");
}

TEST_CASE("--bind none binds nothing and announces nothing") {
  const facts::Snapshot snapshot = polaris();
  options::Options options = running();
  options.bind = options::parse_bind("none", "--bind");
  const LaunchPlan plan = plan_node(snapshot, options);
  CHECK(bound(plan) == Lists{"", "", "", ""});
  CHECK(plan.binding.origin == "--bind");
  CHECK(announced_cpus(*plan.node, snapshot).empty());
}

TEST_CASE("without a topology nothing is bound") {
  facts::Snapshot snapshot = polaris();
  snapshot.host.topology.reset();
  const LaunchPlan plan = plan_node(snapshot, running());
  CHECK(bound(plan) == Lists{"", "", "", ""});
  CHECK(announced_cpus(*plan.node, snapshot).empty());
}

TEST_CASE("tasks that see all CPUs are planned as if the others were alike") {
  CHECK(bound(plan_node(task(0), running())) == Lists{"12-15,28-31"});
  CHECK(bound(plan_node(task(3), running())) == Lists{"0-3,16-19"});
}

TEST_CASE("tasks that share their CPUs share them out as they were told at the rendezvous") {
  std::vector<LocalPeer> all;
  // Two tasks on the GPU of node 3, the others without one.
  for (int local = 0; local < 4; ++local) {
    all.push_back(local_peer(
        local, true, local < 2 ? std::vector<std::string>{"0000:01:00.0"} : std::vector<std::string>{}));
  }
  std::vector<std::string> together;
  for (int local = 0; local < 4; ++local) {
    const facts::Snapshot snapshot = task(local, {{"CUDA_VISIBLE_DEVICES", local < 2 ? "0" : ""}});
    const LaunchPlan plan = plan_node(snapshot, running(), all);
    together.push_back(bound(plan).front());
  }
  // With a node that is near nobody's GPU.
  CHECK(together[0] == "8-9,12-13,24-25,28-29");
  CHECK(together[1] == "10-11,14-15,26-27,30-31");
  CHECK(together[2] != together[3]);
  for (const int local : {2, 3}) CHECK(!together[static_cast<std::size_t>(local)].empty());
}

TEST_CASE("a task with CPUs of its own keeps them") {
  facts::Snapshot snapshot = task(1);
  snapshot.host.allowed_cpus = {4, 5, 20, 21};
  const LaunchPlan plan = plan_node(snapshot, running());
  CHECK(bound(plan) == Lists{""});
  CHECK(plan.binding.origin == "CPUs that were chosen for this task");
  CHECK(bound(plan_node(snapshot, running(),
                        {local_peer(0, false, {}), local_peer(1, true, {}), local_peer(2, false, {})})) ==
        Lists{""});
}

TEST_CASE("an explicit way of binding counts within a task's own CPUs") {
  facts::Snapshot snapshot = task(1);
  snapshot.host.allowed_cpus = {7, 8, 9, 10, 11};
  options::Options options = running();
  options.bind = options::parse_bind("node", "--bind");
  CHECK(bound(plan_node(snapshot, options)) == Lists{"8-11"});
}

TEST_CASE("an agent tells its local peers what they need to bind with it") {
  const facts::Snapshot snapshot = task(2);
  const LaunchPlan plan = plan_node(snapshot, running());
  CHECK(announced_cpus(*plan.node, snapshot) == "0-31");
  CHECK(announced_workers(*plan.node, snapshot) == std::vector<LocalPeerWorker>{{"2", {"0000:81:00.0"}}});
  const facts::Snapshot alone = polaris();
  CHECK(announced_workers(propose_node(alone, running()), alone).empty());
}

TEST_CASE("a topology is needed unless the only worker has all CPUs and no GPU") {
  facts::Snapshot plain;
  plain.host.name = "n1";
  const auto needed = [](const facts::Snapshot& snapshot, const options::Options& options) {
    return needs_topology(options, allocation::detect_allocation(snapshot, options.place), snapshot);
  };
  CHECK_FALSE(needed(plain, running()));
  options::Options one = running();
  one.workers = {options::WorkersKind::number, 1, "--nproc-per-node"};
  CHECK_FALSE(needed(plain, one));
  one.bind.mode = options::BindMode::none;
  CHECK_FALSE(needed(polaris(), one));

  CHECK(needed(polaris(), running()));
  CHECK(needed(task(0), running()));
  const auto with = [&](const auto& change) {
    options::Options options = running();
    change(options);
    return needed(plain, options);
  };
  CHECK(with([](auto& options) { options.workers = {options::WorkersKind::number, 2, "--nproc-per-node"}; }));
  CHECK(with([](auto& options) { options.workers = {options::WorkersKind::cpu, 0, "--nproc-per-node"}; }));
  CHECK(with([](auto& options) { options.bind.mode = options::BindMode::node; }));
  CHECK(with([](auto& options) { options.memory_bind.value = options::MemoryBind::bind; }));
  CHECK(with([](auto& options) { options.omp_places = true; }));
  CHECK(with([](auto& options) { options.nic.value = true; }));
  CHECK(with([](auto& options) { options.show_binding = true; }));
}

TEST_CASE("where no topology is needed the plan is the same with one") {
  facts::Snapshot snapshot = polaris();
  snapshot.host.gpus.clear();
  snapshot.host.topology->devices.clear();
  const LaunchPlan with = plan_node(snapshot, running());
  snapshot.host.topology.reset();
  const LaunchPlan without = plan_node(snapshot, running());
  CHECK(bound(with) == bound(without));
  CHECK(with.planned.front().binding == without.planned.front().binding);
  CHECK(with.threads == without.threads);
  CHECK(with.notices == without.notices);
}
