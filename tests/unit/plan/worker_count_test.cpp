#include "plan/worker_count.hpp"

#include <numeric>

#include <fmt/format.h>

#include "catch.hpp"
#include "error_text.hpp"
#include "plan/gpu_count.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

facts::Snapshot host_with(int cpus, int cores, int gpus = 0) {
  facts::Snapshot snapshot;
  snapshot.host.name = "n1";
  snapshot.host.allowed_cpus.resize(static_cast<std::size_t>(cpus));
  std::iota(snapshot.host.allowed_cpus.begin(), snapshot.host.allowed_cpus.end(), 0);
  snapshot.host.allowed_cores = cores;
  snapshot.host.online_cpus = cpus;
  snapshot.host.gpus.resize(static_cast<std::size_t>(gpus), {"nvidia", ""});
  return snapshot;
}

allocation::Allocation allocation_of(allocation::LaunchStyle style, int tasks = 1) {
  allocation::Allocation allocation;
  allocation.style = {style, "SLURM_STEP_TASKS_PER_NODE"};
  allocation.scheduler = {facts::Scheduler::slurm, "SLURM_JOB_ID"};
  allocation.hosts.value = {{"n1", tasks}};
  allocation.node_index = {NodeIndex{0}, "host name"};
  return allocation;
}

options::Options asking(const std::string& word) {
  options::Options options;
  if (!word.empty()) options.workers = options::parse_workers_per_node(word, "--nproc-per-node");
  return options;
}

std::string count(const std::string& word, const facts::Snapshot& snapshot,
                  allocation::LaunchStyle style = allocation::LaunchStyle::agent_per_node) {
  const auto counted =
      count_workers(allocation_of(style), asking(word), snapshot, placement::find_visible_devices(snapshot));
  return std::to_string(counted.value) + " <- " + counted.origin;
}

std::string count_shared(const std::string& word, int each, const facts::Snapshot& snapshot,
                         allocation::LaunchStyle style = allocation::LaunchStyle::agent_per_node) {
  options::Options options = asking(word);
  options.gpus_per_worker = {each, "--gpus-per-worker"};
  const auto counted =
      count_workers(allocation_of(style), options, snapshot, placement::find_visible_devices(snapshot));
  return std::to_string(counted.value) + " <- " + counted.origin;
}

// Two hardware threads a core, as most clusters number them: n and n + cores.
facts::Topology with_siblings(int cores) {
  facts::Topology topology;
  for (int i = 0; i < cores; ++i) topology.cores.push_back({{i, i + cores}});
  return topology;
}

std::string bound_threads(const facts::Snapshot& snapshot, const std::vector<std::vector<int>>& cpus) {
  std::vector<facts::Binding> bindings;
  for (const std::vector<int>& each : cpus) bindings.push_back({each, {}, facts::MemoryPolicy::untouched});
  const auto counted =
      threads_of_bindings(allocation_of(allocation::LaunchStyle::agent_per_node), snapshot, bindings);
  return std::to_string(counted.value) + " <- " + counted.origin;
}

std::string threads(const facts::Snapshot& snapshot, int workers, int tasks = 1, int granted = 0) {
  allocation::Allocation allocation = allocation_of(allocation::LaunchStyle::agent_per_node, tasks);
  allocation.cpus_on_node.value = granted;
  const auto counted = count_threads(allocation, snapshot, workers);
  return std::to_string(counted.value) + " <- " + counted.origin;
}

}  // namespace

TEST_CASE("workers are what each word of --nproc-per-node says, with GPUs") {
  const facts::Snapshot snapshot = host_with(8, 8, 2);
  CHECK(count("", snapshot) == "2 <- default: 2 GPUs of this host");
  CHECK(count("3", snapshot) == "3 <- --nproc-per-node");
  CHECK(count("auto", snapshot) == "2 <- --nproc-per-node: 2 GPUs of this host");
  CHECK(count("gpu", snapshot) == "2 <- --nproc-per-node: 2 GPUs of this host");
  CHECK(count("xpu", snapshot) == "2 <- --nproc-per-node: 2 GPUs of this host");
  CHECK(count("cpu", snapshot) == "8 <- --nproc-per-node: CPUs this process may use");
}

TEST_CASE("workers are what each word of --nproc-per-node says, without GPUs") {
  const facts::Snapshot snapshot = host_with(8, 4);
  CHECK(count("", snapshot) == "1 <- default: no GPU visible");
  CHECK(count("3", snapshot) == "3 <- --nproc-per-node");
  CHECK(count("auto", snapshot) == "8 <- --nproc-per-node: no GPU, so CPUs");
  CHECK(count("cpu", snapshot) == "8 <- --nproc-per-node: CPUs this process may use");
  for (const char* word : {"gpu", "xpu"}) {
    CHECK(error_of([&] { count(word, snapshot); }) ==
          "--nproc-per-node asks for one worker per GPU, but n1 shows no GPU | ask the scheduler for GPUs, "
          "or set the number of workers with --nproc-per-node N | 2");
  }
}

TEST_CASE("GPUs that a variable hides are not there, and the error names it") {
  facts::Snapshot snapshot = host_with(8, 8, 2);
  snapshot.environment["CUDA_VISIBLE_DEVICES"] = "-1";
  CHECK(count("", snapshot) == "1 <- default: no GPU visible");
  CHECK(count("auto", snapshot) == "8 <- --nproc-per-node: no GPU, so CPUs");
  CHECK(
      error_of([&] { count("gpu", snapshot); }) ==
      "--nproc-per-node asks for one worker per GPU, but n1 shows no GPU | CUDA_VISIBLE_DEVICES is '-1' | 2");
}

TEST_CASE("workers of several GPUs each share out what is visible") {
  const facts::Snapshot four = host_with(8, 8, 4);
  CHECK(count_shared("", 2, four) == "2 <- default: 4 GPUs of this host, 2 GPUs each (--gpus-per-worker)");
  CHECK(count_shared("gpu", 4, four) ==
        "1 <- --nproc-per-node: 4 GPUs of this host, 4 GPUs each (--gpus-per-worker)");
  CHECK(count_shared("1", 2, four) == "1 <- --nproc-per-node");
  CHECK(count_shared("", 1, four) == "4 <- default: 4 GPUs of this host");
  CHECK(count_shared("", 2, four, allocation::LaunchStyle::agent_per_task) ==
        "1 <- SLURM_STEP_TASKS_PER_NODE");
}

TEST_CASE("GPUs that cannot be shared out are told with the way out") {
  const facts::Snapshot four = host_with(8, 8, 4);
  const auto refusal = [](const std::string& word, int each, const facts::Snapshot& snapshot) {
    return error_of([&] { count_shared(word, each, snapshot); });
  };
  CHECK(refusal("", 3, four) ==
        "workers with 3 GPUs each (--gpus-per-worker) do not fit: n1 shows 4 GPUs | give a number that "
        "divides 4, or set the number of workers with --nproc-per-node | 2");
  CHECK(refusal("gpu", 8, four) ==
        "--gpus-per-worker asks for 8 GPUs per worker, but n1 shows 4 GPUs | give a smaller number, or ask "
        "the scheduler for more GPUs | 2");
  CHECK(refusal("", 2, host_with(8, 8)) ==
        "--gpus-per-worker asks for 2 GPUs per worker, but n1 shows no GPU | give a smaller number, or ask "
        "the scheduler for more GPUs | 2");
  facts::Snapshot hidden = four;
  hidden.environment["CUDA_VISIBLE_DEVICES"] = "0,1,2";
  CHECK(refusal("2", 2, hidden) ==
        "2 workers (--nproc-per-node) with 2 GPUs each (--gpus-per-worker) do not fit: n1 shows 3 GPUs "
        "(CUDA_VISIBLE_DEVICES) | 3 GPUs are enough for 1 worker | 2");
  facts::Snapshot mig = host_with(8, 8, 1);
  mig.host.gpus.front().mig = {"MIG-1", "MIG-2"};
  CHECK(refusal("", 2, mig) ==
        "--gpus-per-worker asks for 2 GPUs per worker, but a process can use one MIG instance only | leave "
        "--gpus-per-worker out | 2");
}

TEST_CASE("tasks of the scheduler that share GPUs need enough of them together") {
  options::Options options = asking("");
  options.gpus_per_worker = {2, "--gpus-per-worker"};
  const auto count_of_tasks = [&](int tasks, int gpus) {
    const facts::Snapshot snapshot = host_with(8, 8, gpus);
    return error_of([&] {
      count_workers(allocation_of(allocation::LaunchStyle::agent_per_task, tasks), options, snapshot,
                    placement::find_visible_devices(snapshot));
    });
  };
  CHECK(count_of_tasks(2, 4) == "no error");
  CHECK(count_of_tasks(4, 2) == "no error");  // each has its own
  CHECK(count_of_tasks(4, 4).find("with 2 GPUs each (--gpus-per-worker) do not fit: n1 shows 4 GPUs") !=
        std::string::npos);
}

TEST_CASE("a task of the scheduler is one worker") {
  CHECK(count("gpu", host_with(8, 8, 2), allocation::LaunchStyle::agent_per_task) ==
        "1 <- SLURM_STEP_TASKS_PER_NODE");
}

TEST_CASE("more workers than an agent may announce are refused") {
  CHECK(error_of([] { count("cpu", host_with(5000, 5000)); }) ==
        "--nproc-per-node: CPUs this process may use would start 5000 workers on n1, more than 4096 | set "
        "the number with --nproc-per-node N | 2");
}

TEST_CASE("threads are the cores of the mask for each worker") {
  CHECK(threads(host_with(8, 8), 4) == "2 <- 8 cores for 4 workers");
  CHECK(threads(host_with(16, 8), 4) == "2 <- 8 cores for 4 workers");  // SMT
  CHECK(threads(host_with(8, 8), 1) == "8 <- 8 cores");
  CHECK(threads(host_with(1, 1), 8) == "1 <- 1 core for 8 workers");
  CHECK(threads(host_with(8, 0), 1) == "8 <- 8 cores");  // topology unknown
  CHECK(threads(host_with(0, 0), 1) == "1 <- 1 core");   // nothing known
}

TEST_CASE("a cgroup's limit counts where it is below the mask") {
  facts::Snapshot snapshot = host_with(8, 8);
  snapshot.host.cpu_quota = 2.5;
  CHECK(threads(snapshot, 1) == "3 <- cgroup limit of 2.5 CPUs");
  CHECK(threads(snapshot, 2) == "1 <- cgroup limit of 2.5 CPUs for 2 workers");
  snapshot.host.cpu_quota = 12;
  CHECK(threads(snapshot, 1) == "8 <- 8 cores");
}

TEST_CASE("agents with masks of their own do not share, agents that all see the same do") {
  CHECK(threads(host_with(2, 2), 1, 4, 8) == "2 <- 2 cores");
  CHECK(threads(host_with(8, 8), 1, 4, 8) == "2 <- 8 cores for 4 workers");  // --cpu-bind=none
  CHECK(threads(host_with(8, 8), 1, 4) == "2 <- 8 cores for 4 workers");     // grant unknown: the host's CPUs
}

TEST_CASE("bound workers have a thread for each core of theirs, all as many as the smallest") {
  facts::Snapshot snapshot = host_with(16, 8);
  snapshot.host.topology = with_siblings(8);
  CHECK(bound_threads(snapshot, {{0, 1, 8, 9}, {2, 3, 10, 11}}) == "2 <- 2 cores of each worker");
  CHECK(bound_threads(snapshot, {{0, 1, 2, 8}, {3, 4}}) == "2 <- 2 to 3 cores of each worker");
  CHECK(bound_threads(snapshot, {{0, 8}}) == "1 <- 1 core of each worker");
  CHECK(bound_threads(snapshot, {{0, 1}, {}}) == "4 <- 8 cores for 2 workers");  // not all are bound
  snapshot.host.topology.reset();
  CHECK(bound_threads(snapshot, {{0, 1, 8}}) == "3 <- 3 cores of each worker");
}

TEST_CASE("a cgroup's limit and the user's word count for bound workers too") {
  facts::Snapshot snapshot = host_with(8, 8);
  snapshot.host.cpu_quota = 4;
  CHECK(bound_threads(snapshot, {{0, 1, 2, 3}, {4, 5, 6, 7}}) == "2 <- cgroup limit of 4 CPUs for 2 workers");
  CHECK(bound_threads(snapshot, {{0, 1}, {4, 5}}) == "2 <- 2 cores of each worker");
  snapshot.environment["OMP_NUM_THREADS"] = "3";
  CHECK(bound_threads(snapshot, {{0, 1}, {4, 5}}) == "0 <- OMP_NUM_THREADS of the environment");
}

TEST_CASE("threads that the user has set are left alone") {
  facts::Snapshot snapshot = host_with(8, 8);
  snapshot.environment["OMP_NUM_THREADS"] = "3";
  CHECK(threads(snapshot, 1) == "0 <- OMP_NUM_THREADS of the environment");
}

TEST_CASE("threads that PBS has set for the whole chunk are shared by its workers") {
  facts::Snapshot snapshot = host_with(8, 8);
  snapshot.environment = {{"OMP_NUM_THREADS", "8"}, {"NCPUS", "8"}};
  allocation::Allocation pbs = allocation_of(allocation::LaunchStyle::agent_per_node);
  pbs.scheduler.value = facts::Scheduler::pbs;
  const auto show = [&](int workers) {
    const auto count = count_threads(pbs, snapshot, workers);
    return fmt::format("{} <- {}", count.value, count.origin);
  };
  CHECK(show(4) == "2 <- 8 cores for 4 workers, not the 8 of PBS");
  CHECK(show(1) == "0 <- OMP_NUM_THREADS of the environment");
  snapshot.environment["OMP_NUM_THREADS"] = "3";
  CHECK(show(4) == "0 <- OMP_NUM_THREADS of the environment");
}

TEST_CASE("more workers than CPUs is worth a remark with the way out") {
  allocation::Allocation slurm = allocation_of(allocation::LaunchStyle::agent_per_node);
  slurm.cpus_on_node.value = 1;
  CHECK(find_crowded_cores(slurm, host_with(1, 1), "n1", 8) ==
        allocation::Notice{
            "8 workers share 1 CPU on n1",
            "ask the job for more CPUs: #SBATCH --cpus-per-task=8, and srun --cpus-per-task=8 ... (srun "
            "does not inherit it from sbatch)"});
  slurm.cpus_on_node.value = 64;
  CHECK(find_crowded_cores(slurm, host_with(2, 2), "n1", 8)->hint.find("srun --cpus-per-task=64 ...") !=
        std::string::npos);
  CHECK(find_crowded_cores({}, host_with(2, 2), "n1", 8) ==
        allocation::Notice{"8 workers share 2 CPUs on n1",
                           "start fewer workers with --nproc-per-node, or widen the CPU mask of this shell"});
  CHECK_FALSE(find_crowded_cores(slurm, host_with(8, 8), "n1", 8));
  CHECK(find_crowded_cores(slurm, host_with(8, 4), "n1", 8)->what == "8 workers share 4 cores on n1");
  CHECK_FALSE(find_crowded_cores(slurm, host_with(0, 0), "n1", 8));  // nothing known
}

TEST_CASE("in a step that ddprun started itself only the job can give more CPUs") {
  allocation::Allocation slurm = allocation_of(allocation::LaunchStyle::agent_per_node);
  slurm.cpus_on_node.value = 1;
  facts::Snapshot started = host_with(1, 1);
  started.environment["DDPRUN_FRONT_END"] = "10.0.0.1:4000/8f3c";
  CHECK(find_crowded_cores(slurm, started, "n1", 2)->hint ==
        "ask the job for more CPUs: #SBATCH --cpus-per-task=2");
  slurm.cpus_on_node.value = 2;  // the job has what it needs: something else keeps ddprun from it
  CHECK(find_crowded_cores(slurm, started, "n1", 1) ==
        allocation::Notice{"the worker has a single core of the 2 CPUs granted on n1",
                           "widen the CPU mask in which ddprun was started (taskset, a container)"});
}

TEST_CASE("a single core of more that were granted is worth a remark") {
  allocation::Allocation slurm = allocation_of(allocation::LaunchStyle::agent_per_node);
  slurm.cpus_on_node.value = 16;
  CHECK(find_crowded_cores(slurm, host_with(2, 1), "n1", 1) ==
        allocation::Notice{"the worker has a single core of the 16 CPUs granted on n1",
                           "give each ddprun the cores of its workers: srun --cpus-per-task=16 ..., or srun "
                           "--cpu-bind=none ... (srun does not inherit the --cpus-per-task of sbatch)"});
  CHECK_FALSE(find_crowded_cores(slurm, host_with(2, 2), "n1", 1));
  slurm.cpus_on_node.value = 2;
  CHECK_FALSE(find_crowded_cores(slurm, host_with(2, 1), "n1", 1));
  allocation::Allocation tasks = allocation_of(allocation::LaunchStyle::agent_per_task, 4);
  tasks.cpus_on_node.value = 16;
  CHECK(find_crowded_cores(tasks, host_with(1, 1), "n1", 1)->hint.find("srun --cpus-per-task=4 ...") !=
        std::string::npos);
  tasks.cpus_on_node.value = 4;
  CHECK_FALSE(find_crowded_cores(tasks, host_with(1, 1), "n1", 1));
}

TEST_CASE("one core a task on a node of many is worth a remark") {
  allocation::Allocation tasks = allocation_of(allocation::LaunchStyle::agent_per_task, 4);
  tasks.cpus_on_node.value = 4;
  facts::Snapshot snapshot = host_with(1, 1);
  snapshot.host.online_cpus = 64;
  CHECK(find_crowded_cores(tasks, snapshot, "n1", 1) ==
        allocation::Notice{
            "each worker has a single core on n1, a node of 64 CPUs",
            "ask the job for more CPUs: #SBATCH --cpus-per-task=16, and srun --cpus-per-task=16 ... "
            "(srun does not inherit it from sbatch)"});
  snapshot.host.online_cpus = 8;  // a node that is shared out
  CHECK_FALSE(find_crowded_cores(tasks, snapshot, "n1", 1));
  snapshot.host.online_cpus = 64;
  tasks.scheduler.value = facts::Scheduler::none;  // a mask that the user has chosen
  CHECK_FALSE(find_crowded_cores(tasks, snapshot, "n1", 1));
}

TEST_CASE("LSF and PBS are asked for more cores by their own words") {
  allocation::Allocation job = allocation_of(allocation::LaunchStyle::agent_per_node);
  job.scheduler.value = facts::Scheduler::lsf;
  CHECK(find_crowded_cores(job, host_with(1, 1), "n1", 4)->hint ==
        "ask the job for more slots on each host, as in bsub -R 'span[ptile=4]'");
  job.scheduler.value = facts::Scheduler::pbs;
  CHECK(find_crowded_cores(job, host_with(1, 1), "n1", 4)->hint ==
        "ask the job for more CPUs in each chunk, as in -l select=N:ncpus=4");
}

TEST_CASE("each launcher has its own option against a binding nobody asked for") {
  const auto hint = [](const std::string& launcher) {
    allocation::Allocation allocation = allocation_of(allocation::LaunchStyle::agent_per_node);
    allocation.launcher.value = launcher;
    return find_crowded_cores(allocation, host_with(1, 1), "n1", 4)->hint;
  };
  CHECK(hint("hydra") == "turn off the launcher's binding: mpiexec -bind-to none ...");
  CHECK(hint("Intel MPI") == "turn off the launcher's binding: mpiexec -genv I_MPI_PIN off ...");
  CHECK(hint("Open MPI") == "turn off the launcher's binding: mpirun --bind-to none ...");
  CHECK(hint("jsrun") == "turn off the launcher's binding: jsrun --bind none ...");
  CHECK(hint("flux") == "turn off the launcher's binding: flux run -o cpu-affinity=off ...");
  CHECK(hint("PALS") ==
        "give each ddprun the cores of its workers: mpiexec --depth 4 --cpu-bind depth ..., or turn off the "
        "launcher's binding: --cpu-bind none");
  CHECK(hint("srun").find("srun --cpus-per-task=4 ...") != std::string::npos);
}

TEST_CASE("more workers than GPUs is worth a remark") {
  const placement::VisibleDevices two{
      {"0", "1"}, {0, 1}, "CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"};
  CHECK(find_too_few_gpus(two, {8, "--nproc-per-node"}, {}) ==
        allocation::Notice{"8 workers (--nproc-per-node) have 2 GPUs (CUDA_VISIBLE_DEVICES)",
                           "for one worker per GPU, leave --nproc-per-node out; for several workers on each "
                           "GPU, add --workers-per-gpu 4"});
  CHECK_FALSE(find_too_few_gpus(two, {2, "--nproc-per-node"}, {}));
  CHECK_FALSE(find_too_few_gpus({}, {8, "--nproc-per-node"}, {}));
  options::Options shared;
  shared.workers_per_gpu = 4;
  CHECK_FALSE(find_too_few_gpus(two, {8, "--nproc-per-node"}, shared));
}

TEST_CASE("a word for the count that the scheduler's tasks overrule is worth a remark") {
  CHECK(find_unused_count(allocation_of(allocation::LaunchStyle::agent_per_task), asking("gpu")) ==
        allocation::Notice{"--nproc-per-node has no effect: the scheduler started one ddprun per worker",
                           "to let ddprun start the workers of a node: srun --ntasks-per-node=1 ..."});
  CHECK_FALSE(find_unused_count(allocation_of(allocation::LaunchStyle::agent_per_task), asking("")));
  CHECK_FALSE(find_unused_count(allocation_of(allocation::LaunchStyle::agent_per_task), asking("1")));
  CHECK_FALSE(find_unused_count(allocation_of(allocation::LaunchStyle::agent_per_node), asking("gpu")));
}

TEST_CASE("tasks of the scheduler that are more than the GPUs are refused") {
  const auto refusal = [](int tasks, int gpus) {
    const facts::Snapshot snapshot = host_with(8, 8, gpus);
    return error_of([&] {
      count_workers(allocation_of(allocation::LaunchStyle::agent_per_task, tasks), asking(""), snapshot,
                    placement::find_visible_devices(snapshot));
    });
  };
  CHECK(refusal(4, 3) ==
        "4 tasks () with one worker each, but n1 shows 3 GPUs | start at most 3 tasks on this node; if each "
        "has 3 GPUs to itself, add --gpus-per-worker 3; for several workers on each GPU, add "
        "--workers-per-gpu 2; for workers without GPUs, hide them with CUDA_VISIBLE_DEVICES= | 2");
  CHECK(refusal(4, 4) == "no error");
  CHECK(refusal(4, 1) == "no error");  // its own
  CHECK(refusal(4, 0) == "no error");
}

TEST_CASE("virtual local ranks need a GPU for each worker") {
  const auto refusal = [](const std::string& word, int gpus) {
    options::Options options = asking(word);
    options.virtual_local_rank = true;
    const facts::Snapshot snapshot = host_with(8, 8, gpus);
    return error_of([&] {
      count_workers(allocation_of(allocation::LaunchStyle::alone), options, snapshot,
                    placement::find_visible_devices(snapshot));
    });
  };
  CHECK(refusal("4", 2) ==
        "--virtual-local-rank gives each worker its own GPU, but n1 has 4 workers (--nproc-per-node) and n1 "
        "shows 2 GPUs | start at most 2 workers, or leave --virtual-local-rank out; for several workers on "
        "each "
        "GPU, add --workers-per-gpu 2 | 2");
  CHECK(refusal("2", 2) == "no error");
  CHECK(refusal("4", 0) == "no error");
}
