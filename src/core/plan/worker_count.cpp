#include "plan/worker_count.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "allocation/asked_tasks.hpp"
#include "allocation/detection/started.hpp"
#include "allocation/places/places.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "placement/placement_parts.hpp"
#include "plan/gpu_count.hpp"

namespace ddprun::plan {

namespace {

bool one_a_task(const allocation::Allocation& allocation) {
  return allocation.style.value == allocation::LaunchStyle::agent_per_task;
}

// Counts the workers if nothing limits them. What the place of this node says is below what the user says.
Sourced<int> count_unlimited(const allocation::Allocation& allocation, const options::Options& options,
                             const facts::Snapshot& snapshot, const placement::VisibleDevices& devices) {
  const std::optional<Sourced<int>>& wanted = allocation.place_workers;
  const auto gpus = static_cast<int>(devices.entries.size());
  const int cpus = std::max<int>(1, static_cast<int>(snapshot.host.allowed_cpus.size()));
  const std::string& origin = options.workers.origin;
  switch (options.workers.kind) {
    case options::WorkersKind::number:
      return {options.workers.number, origin};
    case options::WorkersKind::cpu:
      return {cpus, fmt::format("{}: CPUs this process may use", origin)};
    case options::WorkersKind::auto_count:
      if (gpus > 0) return one_for_each_gpu(options, snapshot, devices);
      return {cpus, fmt::format("{}: no GPU, so CPUs", origin)};
    case options::WorkersKind::gpu:
    case options::WorkersKind::xpu:
      return one_for_each_gpu(options, snapshot, devices);
    case options::WorkersKind::unset:
      break;
  }
  if (wanted && !asks_for_gpus(options)) return *wanted;
  if (gpus > 0) return share_out_gpus("default", options, snapshot, devices);
  const Sourced<int> asked = asked_tasks_here(allocation, snapshot);
  return asked.value > 0 ? asked : Sourced<int>{1, "default: no GPU visible"};
}

// Reports whether PBS set it: it gives the CPUs of a whole chunk in OMP_NUM_THREADS, the same as in NCPUS,
// whether or not the user asked for ompthreads (start_exec.c). If several workers share them that is not the
// user's wish.
bool is_set_by_pbs(const allocation::Allocation& allocation, const facts::Snapshot& snapshot,
                   const std::string& threads, int workers) {
  return allocation.scheduler.value == facts::Scheduler::pbs &&
         facts::find_variable(snapshot, "NCPUS") == threads && workers * tasks_on_this_host(allocation) > 1;
}

// Returns the physical cores of this agent's mask; without a topology every CPU is one.
std::int64_t cores_of(const facts::HostFacts& host) {
  return host.allowed_cores > 0 ? host.allowed_cores : static_cast<std::int64_t>(host.allowed_cpus.size());
}

// Counts cores, each however many of its hardware threads are there.
std::int64_t cores_in(const std::vector<int>& cpus, const std::optional<facts::Topology>& topology) {
  if (!topology) return static_cast<std::int64_t>(cpus.size());
  const auto is_used = [&](const facts::Core& core) { return placement::overlap(core.cpus, cpus); };
  const auto count = std::ranges::count_if(topology->cores, is_used);
  return count > 0 ? count : static_cast<std::int64_t>(cpus.size());
}

// Returns the cgroup's limit in whole CPUs, if it is lower.
std::optional<Sourced<std::int64_t>> quota_below(const facts::HostFacts& host, std::int64_t cores) {
  if (!host.cpu_quota || *host.cpu_quota >= static_cast<double>(cores)) return std::nullopt;
  const auto whole = static_cast<std::int64_t>(std::ceil(*host.cpu_quota));
  return sourced(std::max<std::int64_t>(1, whole),
                 fmt::format("cgroup limit of {:.3g} CPUs", *host.cpu_quota));
}

// Returns the cores that PBS granted on this host, if fewer than `cores` and nothing else limits its jobs to
// them.
std::optional<Sourced<std::int64_t>> granted_below(const allocation::Allocation& allocation,
                                                   std::int64_t cores) {
  const Sourced<int>& granted = allocation.cpus_on_node;
  if (allocation.scheduler.value != facts::Scheduler::pbs || granted.value < 1 || granted.value >= cores)
    return std::nullopt;
  return sourced(std::int64_t{granted.value},
                 fmt::format("{} ({})", count_of(granted.value, "CPU"), granted.origin));
}

// Returns how many agents share the mask: they either own a part of their host each, or were left unbound,
// and then their masks together are larger than what was granted.
std::int64_t agents_of_mask(const allocation::Allocation& allocation, const facts::HostFacts& host) {
  const std::int64_t tasks = tasks_on_this_host(allocation);
  const auto cpus = static_cast<std::int64_t>(host.allowed_cpus.size());
  const int granted = allocation.cpus_on_node.value > 0 ? allocation.cpus_on_node.value : host.online_cpus;
  return tasks > 1 && cpus * tasks > granted ? tasks : 1;
}

// Returns the hint for Slurm. srun cannot give more than the job has, which a batch script and a step that
// ddprun started itself have.
std::string slurm_hint(const allocation::Allocation& allocation, const facts::Snapshot& snapshot,
                       int workers) {
  const int each = allocation.cpus_on_node.value / std::max(1, tasks_on_this_host(allocation));
  const bool by_srun = allocation.style.value != allocation::LaunchStyle::alone &&
                       !facts::find_variable(snapshot, allocation::k_front_end_variable);
  if (!by_srun && allocation.cpus_on_node.value > 1 && allocation.cpus_on_node.value >= workers)
    return "widen the CPU mask in which ddprun was started (taskset, a container)";
  if (!by_srun) return fmt::format("ask the job for more CPUs: #SBATCH --cpus-per-task={}", workers);
  if (each < workers) {
    return fmt::format(
        "ask the job for more CPUs: #SBATCH --cpus-per-task={0}, and srun --cpus-per-task={0} ... (srun does "
        "not inherit it from sbatch)",
        workers);
  }
  return fmt::format(
      "give each ddprun the cores of its workers: srun --cpus-per-task={} ..., or srun --cpu-bind=none ... "
      "(srun does not inherit the --cpus-per-task of sbatch)",
      each);
}

// Returns the option of each launcher that leaves the binding to us.
std::string widen_hint(const allocation::Allocation& allocation, const facts::Snapshot& snapshot,
                       int workers) {
  struct Row {
    const char* launcher;
    const char* hint;
  };
  constexpr Row k_rows[] = {{"hydra", "turn off the launcher's binding: mpiexec -bind-to none ..."},
                            {"Intel MPI", "turn off the launcher's binding: mpiexec -genv I_MPI_PIN off ..."},
                            {"Open MPI", "turn off the launcher's binding: mpirun --bind-to none ..."},
                            {"jsrun", "turn off the launcher's binding: jsrun --bind none ..."},
                            {"flux", "turn off the launcher's binding: flux run -o cpu-affinity=off ..."}};
  const int tasks = std::max(1, tasks_on_this_host(allocation));
  const int cpus = std::max(allocation.cpus_on_node.value / tasks, workers);
  for (const Row& row : k_rows) {
    if (allocation.launcher.value == row.launcher) return row.hint;
  }
  if (allocation.launcher.value == "PALS") {
    return fmt::format(
        "give each ddprun the cores of its workers: mpiexec --depth {} --cpu-bind depth ..., or turn off the "
        "launcher's binding: --cpu-bind none",
        cpus);
  }
  if (allocation.scheduler.value == facts::Scheduler::slurm) {
    return slurm_hint(allocation, snapshot, workers);
  }
  if (allocation.scheduler.value == facts::Scheduler::lsf)
    return fmt::format("ask the job for more slots on each host, as in bsub -R 'span[ptile={}]'", cpus);
  if (allocation.scheduler.value == facts::Scheduler::pbs)
    return fmt::format("ask the job for more CPUs in each chunk, as in -l select=N:ncpus={}", cpus);
  return "start fewer workers with --nproc-per-node, or widen the CPU mask of this shell";
}

}  // namespace

Sourced<int> asked_tasks_here(const allocation::Allocation& allocation, const facts::Snapshot& snapshot) {
  if (!allocation::asks_for_several(allocation)) return {};
  const allocation::Host* const own = allocation::find_own_host(allocation);
  const std::string& host = own != nullptr && !own->name.empty() ? own->name : snapshot.host.name;
  const int tasks = allocation::count_asked_tasks(allocation.asked_tasks->value, host);
  return {tasks, fmt::format("tasks of the job ({})", allocation.asked_tasks->origin)};
}

bool is_for_tasks(const allocation::Allocation& allocation, const options::Options& options,
                  const placement::VisibleDevices& devices) {
  return options.workers.kind == options::WorkersKind::unset && !one_a_task(allocation) &&
         !allocation.place_workers && devices.entries.empty();
}

int tasks_on_this_host(const allocation::Allocation& allocation) {
  if (allocation.tasks_here.value > 0) return allocation.tasks_here.value;
  const allocation::Host* const own = allocation::find_own_host(allocation);
  return own != nullptr ? own->tasks : 1;
}

const std::string& tasks_origin(const allocation::Allocation& allocation) {
  return allocation.tasks_here.value > 0 ? allocation.tasks_here.origin : allocation.task_count.origin;
}

Sourced<int> count_workers(const allocation::Allocation& allocation, const options::Options& options,
                           const facts::Snapshot& snapshot, const placement::VisibleDevices& devices) {
  if (one_a_task(allocation)) {
    check_gpus_of_tasks(allocation, options, snapshot, devices);
    return {1, allocation.style.origin};
  }
  Sourced<int> count = count_unlimited(allocation, options, snapshot, devices);
  check_gpus_of_workers(count, options, snapshot, devices);
  if (count.value > options::k_max_workers) {
    throw UsageError(fmt::format("{} would start {} on {}, more than {}", count.origin,
                                 count_of(count.value, "worker"), snapshot.host.name, options::k_max_workers),
                     "set the number with --nproc-per-node N");
  }
  return count;
}

bool shares_mask(const allocation::Allocation& allocation, const facts::Snapshot& snapshot) {
  return agents_of_mask(allocation, snapshot.host) > 1;
}

namespace {

Sourced<int> share_cores(const allocation::Allocation& allocation, const facts::Snapshot& snapshot,
                         int workers) {
  std::int64_t usable = std::max<std::int64_t>(1, cores_of(snapshot.host));
  std::string origin = count_of(usable, "core");
  if (const auto quota = quota_below(snapshot.host, usable)) {
    usable = quota->value;
    origin = quota->origin;
  }
  if (const auto granted = granted_below(allocation, usable)) {
    usable = granted->value;
    origin = granted->origin;
  }
  const std::int64_t sharers = workers * agents_of_mask(allocation, snapshot.host);
  if (sharers > 1) origin += fmt::format(" for {} workers", sharers);
  return {static_cast<int>(std::max<std::int64_t>(1, usable / sharers)), origin};
}

// Returns nullopt if a worker is not bound, or a control group allows fewer cores than the bindings have.
std::optional<Sourced<int>> cores_of_bindings(const allocation::Allocation& allocation,
                                              const facts::Snapshot& snapshot,
                                              const std::vector<facts::Binding>& bindings) {
  const auto is_free = [](const facts::Binding& binding) { return binding.cpus.empty(); };
  if (std::ranges::any_of(bindings, is_free)) return std::nullopt;
  std::int64_t least = std::numeric_limits<int>::max();
  std::int64_t most = 0;
  for (const facts::Binding& binding : bindings) {
    const std::int64_t cores = cores_in(binding.cpus, snapshot.host.topology);
    least = std::min(least, cores);
    most = std::max(most, cores);
  }
  const std::int64_t sharers =
      static_cast<std::int64_t>(bindings.size()) * agents_of_mask(allocation, snapshot.host);
  if (quota_below(snapshot.host, least * sharers)) return std::nullopt;
  const std::string origin = least == most ? fmt::format("{} of each worker", count_of(least, "core"))
                                           : fmt::format("{} to {} cores of each worker", least, most);
  return sourced(static_cast<int>(least), origin);
}

// Counts the hardware threads of the worker that has the fewest.
std::int64_t fewest_cpus(const allocation::Allocation& allocation, const facts::Snapshot& snapshot,
                         const std::vector<facts::Binding>& bindings) {
  auto fewest = static_cast<std::int64_t>(snapshot.host.allowed_cpus.size()) /
                (static_cast<std::int64_t>(bindings.size()) * agents_of_mask(allocation, snapshot.host));
  for (const facts::Binding& binding : bindings) {
    const auto cpus = static_cast<std::int64_t>(binding.cpus.size());
    if (cpus > 0) fewest = std::min(fewest, cpus);
  }
  return fewest;
}

}  // namespace

Sourced<int> count_threads(const allocation::Allocation& allocation, const facts::Snapshot& snapshot,
                           int workers) {
  const auto set = facts::find_variable(snapshot, "OMP_NUM_THREADS");
  const bool by_pbs = set && is_set_by_pbs(allocation, snapshot, *set, workers);
  const auto preset = allocation::find_threads_preset(snapshot.environment);
  if (set && !by_pbs && !preset) return {0, "OMP_NUM_THREADS of the environment"};
  Sourced<int> threads = share_cores(allocation, snapshot, workers);
  if (by_pbs) threads.origin += fmt::format(", not the {} of PBS", *set);
  if (preset) threads.origin += fmt::format(", not the {} of {}", *set, *preset);
  return threads;
}

Sourced<int> threads_of_bindings(const allocation::Allocation& allocation, const facts::Snapshot& snapshot,
                                 const std::vector<facts::Binding>& bindings) {
  const Sourced<int> unbound = count_threads(allocation, snapshot, static_cast<int>(bindings.size()));
  if (unbound.value == 0) return unbound;
  return cores_of_bindings(allocation, snapshot, bindings).value_or(unbound);
}

std::optional<allocation::Notice> find_many_threads(const allocation::Allocation& allocation,
                                                    const facts::Snapshot& snapshot, const std::string& host,
                                                    const std::vector<facts::Binding>& bindings) {
  const auto workers = static_cast<int>(bindings.size());
  const auto set = facts::find_variable(snapshot, "OMP_NUM_THREADS");
  if (!set || workers == 0 || snapshot.host.allowed_cpus.empty()) return std::nullopt;
  if (is_set_by_pbs(allocation, snapshot, *set, workers)) return std::nullopt;
  const auto threads = parse_integer(trim(split(*set, ',').front()));  // "4,2": the outer level
  const auto bound = cores_of_bindings(allocation, snapshot, bindings);
  const int cores = bound ? bound->value : share_cores(allocation, snapshot, workers).value;
  const bool limited = quota_below(snapshot.host, cores_of(snapshot.host)).has_value();
  const std::int64_t cpus = limited ? cores : fewest_cpus(allocation, snapshot, bindings);
  if (!threads || *threads <= std::max<std::int64_t>(cores, cpus)) return std::nullopt;
  return allocation::Notice{
      fmt::format("OMP_NUM_THREADS={} of the environment is more than the {} that each worker has on {}",
                  *threads, count_of(cores, "core"), host),
      fmt::format("unset it, and ddprun sets it to {}", cores)};
}

std::optional<allocation::Notice> find_unused_count(const allocation::Allocation& allocation,
                                                    const options::Options& options) {
  const options::WorkersKind kind = options.workers.kind;
  const bool one = kind == options::WorkersKind::number && options.workers.number == 1;
  const bool refused = kind == options::WorkersKind::number && !allocation.numbered_by_launcher;
  if (!one_a_task(allocation) || kind == options::WorkersKind::unset || one || refused) return std::nullopt;
  if (allocation.numbered_by_launcher) {
    return allocation::Notice{fmt::format("{} has no effect: {} started one ddprun per worker",
                                          options.workers.origin, allocation.launcher.value),
                              "to let ddprun start the workers of a node, start one ddprun on each node"};
  }
  return allocation::Notice{
      fmt::format("{} has no effect: the scheduler started one ddprun per worker", options.workers.origin),
      "to let ddprun start the workers of a node: srun --ntasks-per-node=1 ..."};
}

std::optional<allocation::Notice> find_other_tasks(const allocation::Allocation& allocation,
                                                   const options::Options& options,
                                                   const facts::Snapshot& snapshot,
                                                   const placement::VisibleDevices& devices, int workers) {
  const Sourced<int> asked = asked_tasks_here(allocation, snapshot);
  const bool by_gpus = options.workers.kind == options::WorkersKind::unset && !devices.entries.empty();
  if (!by_gpus || one_a_task(allocation) || asks_for_gpus(options) || asked.value < 2 ||
      asked.value == workers)
    return std::nullopt;
  return allocation::Notice{
      fmt::format("the job asks for {} on {} ({}), but one worker is started for each GPU: {}",
                  count_of(asked.value, "task"), snapshot.host.name, allocation.asked_tasks->origin, workers),
      fmt::format("--nproc-per-node {} starts one for each task", asked.value)};
}

namespace {

// The default of most schedulers is one core a task, on nodes of many.
std::optional<allocation::Notice> find_small_share(const allocation::Allocation& allocation,
                                                   const facts::Snapshot& snapshot, const std::string& host,
                                                   std::int64_t cpus) {
  constexpr int k_much_less = 4;
  const int online = snapshot.host.online_cpus;
  const bool scheduled = facts::find_traits(allocation.scheduler.value) != nullptr;
  if (!scheduled || online < k_much_less * cpus) return std::nullopt;
  const int share = online / std::max(1, tasks_on_this_host(allocation));
  return allocation::Notice{
      fmt::format("each worker has a single core on {}, a node of {} CPUs", host, online),
      widen_hint(allocation, snapshot, share)};
}

}  // namespace

std::optional<allocation::Notice> find_crowded_cores(const allocation::Allocation& allocation,
                                                     const facts::Snapshot& snapshot, const std::string& host,
                                                     int workers) {
  const facts::HostFacts& facts = snapshot.host;
  const auto cpus = static_cast<std::int64_t>(facts.allowed_cpus.size());
  if (cpus == 0) return std::nullopt;
  const std::int64_t cores = std::min(cores_of(facts), cpus);
  const std::string hint = widen_hint(allocation, snapshot, workers);
  if (workers > cores) {
    const std::string shared = workers > cpus ? count_of(cpus, "CPU") : count_of(cores, "core");
    return allocation::Notice{fmt::format("{} workers share {} on {}", workers, shared, host), hint};
  }
  const std::int64_t granted = allocation.cpus_on_node.value;
  const std::int64_t tasks = std::max(1, tasks_on_this_host(allocation));
  if (cores > 1) return std::nullopt;
  if (granted > cpus * tasks) {
    return allocation::Notice{
        fmt::format("the worker has a single core of the {} CPUs granted on {}", granted, host), hint};
  }
  return find_small_share(allocation, snapshot, host, cpus * tasks);
}

}  // namespace ddprun::plan
