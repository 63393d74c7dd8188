// --gpus-per-worker 1.
#include "catch.hpp"
#include "error_text.hpp"
#include "plan/finalise.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

facts::Snapshot machine(const std::string& vendor, int gpus, facts::Environment environment = {}) {
  facts::Snapshot snapshot;
  snapshot.host.name = "n1";
  snapshot.host.allowed_cpus = {0, 1, 2, 3, 4, 5, 6, 7};
  snapshot.host.allowed_cores = 8;
  for (int i = 0; i < gpus; ++i) snapshot.host.gpus.push_back({vendor, ""});
  snapshot.environment = std::move(environment);
  return snapshot;
}

options::Options one_gpu() {
  options::Options options;
  options.command = {"train.py"};
  options.gpus_per_worker = {1, "--gpus-per-worker"};
  return options;
}

facts::Environment worker(const facts::Snapshot& snapshot, std::size_t index) {
  const LaunchPlan plan = test::plan_node(snapshot, one_gpu());
  facts::Environment environment;
  for (const auto& [change, open] : expected_variables(plan, snapshot.environment, index)) {
    if (change.value) environment[change.name] = *change.value;
  }
  return environment;
}

}  // namespace

TEST_CASE("with one GPU a worker each sees its own, as number 0") {
  const facts::Environment second = worker(machine("nvidia", 4), 1);
  CHECK(second.at("CUDA_VISIBLE_DEVICES") == "1");
  CHECK(second.at("LOCAL_RANK") == "0");
  CHECK(second.at("RANK") == "1");
  CHECK(second.at("LOCAL_WORLD_SIZE") == "4");
  CHECK(worker(machine("amd", 2), 1).at("HIP_VISIBLE_DEVICES") == "1");
  CHECK(worker(machine("intel", 2), 1).at("ZE_AFFINITY_MASK") == "1");
}

TEST_CASE("the worker's GPU is one of those that are visible") {
  CHECK(worker(machine("nvidia", 8, {{"CUDA_VISIBLE_DEVICES", "7,5"}}), 1).at("CUDA_VISIBLE_DEVICES") == "5");
  CHECK(worker(machine("amd", 8, {{"ROCR_VISIBLE_DEVICES", "6,2"}}), 1).at("ROCR_VISIBLE_DEVICES") == "2");
}

TEST_CASE("without the option every worker sees all GPUs and has its own local rank") {
  const facts::Snapshot snapshot = machine("nvidia", 4);
  options::Options options = one_gpu();
  options.gpus_per_worker = by_default(1);
  CHECK_FALSE(test::plan_node(snapshot, options).node->virtual_local_rank.value);
}

TEST_CASE("one GPU a worker is refused where there are too few") {
  const auto refusal = [](const facts::Snapshot& snapshot, int workers) {
    options::Options options = one_gpu();
    options.workers = {options::WorkersKind::number, workers, "--nproc-per-node"};
    return error_of([&] { test::plan_node(snapshot, options); });
  };
  CHECK(refusal(machine("nvidia", 0), 2) ==
        "--gpus-per-worker asks for 1 GPU per worker, but n1 shows no GPU | leave --gpus-per-worker out, or "
        "ask the scheduler for GPUs | 2");
  CHECK(refusal(machine("nvidia", 2), 4) ==
        "4 workers (--nproc-per-node) with 1 GPU each (--gpus-per-worker) do not fit: n1 shows 2 GPUs | 2 "
        "GPUs are enough for 2 workers; for several workers on each GPU, add --workers-per-gpu 2 | 2");
  CHECK(refusal(machine("nvidia", 4), 2) == "no error");
}
