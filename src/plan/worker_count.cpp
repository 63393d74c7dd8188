#include "ddprun/plan/worker_count.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

bool one_a_task(const Allocation& allocation) {
  return allocation.style.value == LaunchStyle::agent_per_task;
}

Sourced<int> one_for_each_gpu(const Options& options, const Snapshot& snapshot,
                              const VisibleDevices& devices) {
  const std::string& origin = options.workers.origin;
  if (!devices.entries.empty()) {
    return {static_cast<int>(devices.entries.size()), fmt::format("{}: {}", origin, devices.origin)};
  }
  throw Error(fmt::format("{} asks for one worker a GPU, but {} shows no GPU", origin, snapshot.host.name),
              devices.variable.empty()
                  ? "ask the scheduler for GPUs, or say how many workers with --nproc-per-node N"
                  : fmt::format("{} is '{}'", devices.variable,
                                printable(*find_variable(snapshot, devices.variable))));
}

Sourced<int> count_unlimited(const Options& options, const Snapshot& snapshot,
                             const VisibleDevices& devices) {
  const auto gpus = static_cast<int>(devices.entries.size());
  const int cpus = std::max<int>(1, static_cast<int>(snapshot.host.allowed_cpus.size()));
  const std::string& origin = options.workers.origin;
  switch (options.workers.kind) {
    case WorkersKind::number:
      return {options.workers.number, origin};
    case WorkersKind::cpu:
      return {cpus, fmt::format("{}: CPUs this process may use", origin)};
    case WorkersKind::auto_count:
      if (gpus > 0) return one_for_each_gpu(options, snapshot, devices);
      return {cpus, fmt::format("{}: no GPU, so CPUs", origin)};
    case WorkersKind::gpu:
    case WorkersKind::xpu:
      return one_for_each_gpu(options, snapshot, devices);
    case WorkersKind::unset:
      break;
  }
  if (gpus == 0) return {1, "default: no GPU visible"};
  return {gpus, "default: " + devices.origin};
}

// PBS gives the CPUs of a whole chunk in OMP_NUM_THREADS, the same as in NCPUS, whether or not the user asked
// for ompthreads (start_exec.c). Where several workers share them that is nobody's wish.
bool is_set_by_pbs(const Allocation& allocation, const Snapshot& snapshot, const std::string& threads,
                   int workers) {
  return allocation.scheduler.value == Scheduler::pbs && find_variable(snapshot, "NCPUS") == threads &&
         workers * tasks_on_this_host(allocation) > 1;
}

}  // namespace

int tasks_on_this_host(const Allocation& allocation) {
  if (allocation.tasks_here.value > 0) return allocation.tasks_here.value;
  const auto index = static_cast<std::size_t>(allocation.node_index.value.value);
  return index < allocation.hosts.value.size() ? allocation.hosts.value[index].tasks : 1;
}

const std::string& tasks_origin(const Allocation& allocation) {
  return allocation.tasks_here.value > 0 ? allocation.tasks_here.origin : allocation.task_count.origin;
}

Sourced<int> count_workers(const Allocation& allocation, const Options& options, const Snapshot& snapshot,
                           const VisibleDevices& devices) {
  if (one_a_task(allocation)) return {1, allocation.style.origin};
  Sourced<int> count = count_unlimited(options, snapshot, devices);
  if (count.value > k_max_workers) {
    throw Error(fmt::format("{} would start {} on {}, more than {}", count.origin,
                            count_of(count.value, "worker"), snapshot.host.name, k_max_workers),
                "say how many with --nproc-per-node N");
  }
  return count;
}

bool shares_mask(const Allocation& allocation, const Snapshot& snapshot) {
  const HostFacts& host = snapshot.host;
  const auto cpus = static_cast<std::int64_t>(host.allowed_cpus.size());
  const std::int64_t tasks = tasks_on_this_host(allocation);
  const int granted = allocation.cpus_on_node.value > 0 ? allocation.cpus_on_node.value : host.online_cpus;
  return tasks > 1 && cpus * tasks > granted;
}

Sourced<int> count_threads(const Allocation& allocation, const Snapshot& snapshot, int workers) {
  const auto set = find_variable(snapshot, "OMP_NUM_THREADS");
  const bool by_pbs = set && is_set_by_pbs(allocation, snapshot, *set, workers);
  if (set && !by_pbs) return {0, "OMP_NUM_THREADS of the environment"};
  const HostFacts& host = snapshot.host;
  const auto cpus = static_cast<std::int64_t>(host.allowed_cpus.size());
  std::int64_t usable = std::max<std::int64_t>(1, host.allowed_cores > 0 ? host.allowed_cores : cpus);
  std::string origin = count_of(usable, "core");
  if (host.cpu_quota && *host.cpu_quota < static_cast<double>(usable)) {
    usable = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(*host.cpu_quota)));
    origin = fmt::format("cgroup limit of {:.3g} CPUs", *host.cpu_quota);
  }
  const std::int64_t sharers =
      workers * (shares_mask(allocation, snapshot) ? tasks_on_this_host(allocation) : 1);
  if (sharers > 1) origin += fmt::format(" for {} workers", sharers);
  if (by_pbs) origin += fmt::format(", not the {} of PBS", *set);
  return {static_cast<int>(std::max<std::int64_t>(1, usable / sharers)), origin};
}

std::optional<Notice> find_unused_count(const Allocation& allocation, const Options& options) {
  const WorkersKind kind = options.workers.kind;
  const bool one = kind == WorkersKind::number && options.workers.number == 1;
  const bool refused = kind == WorkersKind::number && !allocation.numbered_by_launcher;
  if (!one_a_task(allocation) || kind == WorkersKind::unset || one || refused) return std::nullopt;
  if (allocation.numbered_by_launcher) {
    return Notice{fmt::format("{} has no effect: {} started one ddprun a worker", options.workers.origin,
                              allocation.launcher.value),
                  "to let ddprun start the workers of a node, start one ddprun on each"};
  }
  return Notice{
      fmt::format("{} has no effect: the scheduler started one ddprun a worker", options.workers.origin),
      "to let ddprun start the workers of a node: srun --ntasks-per-node=1 ..."};
}

// Scripts take device LOCAL_RANK, which is not there for the last workers.
std::optional<Notice> find_too_few_gpus(const VisibleDevices& devices, const Sourced<int>& workers) {
  const auto gpus = static_cast<std::int64_t>(devices.entries.size());
  if (gpus == 0 || workers.value <= gpus) return std::nullopt;
  return Notice{fmt::format("{} ({}) have {} ({})", count_of(workers.value, "worker"), workers.origin,
                            count_of(gpus, "GPU"), devices.origin),
                "for one worker a GPU, leave --nproc-per-node out"};
}

std::optional<Notice> find_crowded_cores(const Allocation& allocation, const HostFacts& facts,
                                         const std::string& host, int workers) {
  const auto cpus = static_cast<int>(facts.allowed_cpus.size());
  if (cpus == 0 || workers <= cpus) return std::nullopt;
  std::string hint = "start fewer workers with --nproc-per-node, or widen the CPU mask of this shell";
  if (allocation.scheduler.value == Scheduler::slurm) {
    hint = fmt::format(
        "give each ddprun the cores of its workers: srun -c{} ... (srun does not take over the "
        "--cpus-per-task of sbatch)",
        std::max(allocation.cpus_on_node.value, workers));
  }
  return Notice{fmt::format("{} workers share {} on {}", workers, count_of(cpus, "CPU"), host), hint};
}

}  // namespace ddprun
