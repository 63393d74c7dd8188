#include "plan/gpu_count.hpp"

#include "catch.hpp"
#include "error_text.hpp"
#include "plan/worker_count.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

facts::Snapshot host_with(int gpus) {
  facts::Snapshot snapshot;
  snapshot.host.name = "n1";
  snapshot.host.gpus.resize(static_cast<std::size_t>(gpus), {"nvidia", ""});
  return snapshot;
}

allocation::Allocation allocation_of(allocation::LaunchStyle style, int tasks = 1) {
  allocation::Allocation allocation;
  allocation.style = {style, "SLURM_STEP_TASKS_PER_NODE"};
  allocation.task_count.origin = "SLURM_STEP_TASKS_PER_NODE";
  allocation.hosts.value = {{"n1", tasks}};
  allocation.node_index = {NodeIndex{0}, "host name"};
  return allocation;
}

options::Options with_workers_per_gpu(int number, const std::string& workers = "") {
  options::Options options;
  options.workers_per_gpu = number;
  options.gpus_per_worker = {1, "--workers-per-gpu"};
  if (!workers.empty()) options.workers = options::parse_workers_per_node(workers, "--nproc-per-node");
  return options;
}

std::string count(const options::Options& options, const facts::Snapshot& snapshot,
                  allocation::LaunchStyle style = allocation::LaunchStyle::agent_per_node, int tasks = 1) {
  std::string counted;
  const std::string error = error_of([&] {
    const auto workers = count_workers(allocation_of(style, tasks), options, snapshot,
                                       placement::find_visible_devices(snapshot));
    counted = std::to_string(workers.value) + " <- " + workers.origin;
  });
  return counted.empty() ? error : counted;
}

}  // namespace

TEST_CASE("--workers-per-gpu starts several workers for each GPU") {
  CHECK(count(with_workers_per_gpu(2), host_with(4)) ==
        "8 <- default: 4 GPUs of this host, 2 on each GPU (--workers-per-gpu)");
  CHECK(count(with_workers_per_gpu(2, "gpu"), host_with(4)) ==
        "8 <- --nproc-per-node: 4 GPUs of this host, 2 on each GPU (--workers-per-gpu)");
  CHECK(count(with_workers_per_gpu(2, "3"), host_with(2)) == "3 <- --nproc-per-node");
  CHECK(count(with_workers_per_gpu(2, "5"), host_with(2)) ==
        "5 workers (--nproc-per-node) with 2 on each GPU (--workers-per-gpu) do not fit: n1 shows 2 GPUs | 2 "
        "GPUs "
        "are enough for 4 workers; for several workers on each GPU, add --workers-per-gpu 3 | 2");
  CHECK(count(with_workers_per_gpu(2), host_with(0)) ==
        "--workers-per-gpu asks for 1 GPU per worker, but n1 shows no GPU | leave --workers-per-gpu out, or "
        "ask the "
        "scheduler for GPUs | 2");
}

TEST_CASE("several workers on each GPU are offered where they do not fit") {
  options::Options options;
  options.gpus_per_worker = {1, "--gpus-per-worker"};
  options.workers = options::parse_workers_per_node("4", "--nproc-per-node");
  CHECK(count(options, host_with(2)) ==
        "4 workers (--nproc-per-node) with 1 GPU each (--gpus-per-worker) do not fit: n1 shows 2 GPUs | 2 "
        "GPUs are "
        "enough for 2 workers; for several workers on each GPU, add --workers-per-gpu 2 | 2");
  const auto task = allocation::LaunchStyle::agent_per_task;
  CHECK(count(with_workers_per_gpu(2), host_with(2), task, 4) == "1 <- SLURM_STEP_TASKS_PER_NODE");
}

TEST_CASE("tasks that share parts of a node's GPUs are told to see all of them") {
  facts::Snapshot snapshot = host_with(4);
  snapshot.environment["CUDA_VISIBLE_DEVICES"] = "0,1";  // srun --gpu-bind=closest
  snapshot.environment["SLURM_GPUS_ON_NODE"] = "4";
  const std::string refusal =
      "4 tasks (SLURM_STEP_TASKS_PER_NODE) share the 4 GPUs of the node (SLURM_GPUS_ON_NODE), but n1 shows 2 "
      "GPUs "
      "(CUDA_VISIBLE_DEVICES): the device of a task's LOCAL_RANK may not be among those that it sees | "
      "launch with "
      "srun --gpu-bind=none to let every task see all GPUs of its node | 2";
  const auto task = allocation::LaunchStyle::agent_per_task;
  CHECK(count({}, snapshot, task, 4) == refusal);
  options::Options two_each;
  two_each.gpus_per_worker = {2, "--gpus-per-worker"};
  CHECK(count(two_each, snapshot, task, 4) == refusal);
  CHECK(count({}, snapshot, task, 2) == "1 <- SLURM_STEP_TASKS_PER_NODE");
  snapshot.environment["SLURM_GPUS_ON_NODE"] = "8";  // srun --gpus-per-task=2
  CHECK(count(two_each, snapshot, task, 4) == "1 <- SLURM_STEP_TASKS_PER_NODE");
}

TEST_CASE("local ranks past the GPUs that a worker sees are worth a remark") {
  options::Options options;
  options.gpus_per_worker = {2, "--gpus-per-worker"};
  CHECK(find_high_local_ranks(options, 4) ==
        allocation::Notice{
            "LOCAL_RANK goes up to 3, but each worker sees 2 GPUs (--gpus-per-worker), numbered from 0",
            "use device 0 and those after it in the script, not the one with the number LOCAL_RANK"});
  CHECK_FALSE(find_high_local_ranks(options, 2));
  options.virtual_local_rank = true;
  CHECK_FALSE(find_high_local_ranks(options, 4));
  CHECK_FALSE(find_high_local_ranks({}, 4));
}
