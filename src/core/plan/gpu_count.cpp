#include "plan/gpu_count.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "placement/devices.hpp"
#include "plan/worker_count.hpp"

namespace ddprun::plan {

namespace {

int gpus_a_worker(const options::Options& options) { return options.gpus_per_worker.value; }
std::int64_t count_visible(const placement::VisibleDevices& devices) {
  return static_cast<std::int64_t>(devices.entries.size());
}

std::string describe_share(const options::Options& options) {
  const std::string& origin = options.gpus_per_worker.origin;
  if (const int several = options.workers_per_gpu; several > 1)
    return fmt::format("{} on each GPU ({})", several, origin);
  return fmt::format("{} each ({})", count_of(gpus_a_worker(options), "GPU"), origin);
}

std::string shown_gpus(const facts::Snapshot& snapshot, const placement::VisibleDevices& devices) {
  const std::int64_t gpus = count_visible(devices);
  const std::string variable = devices.variable.empty() ? "" : fmt::format(" ({})", devices.origin);
  return fmt::format("{} shows {}{}", snapshot.host.name, gpus > 0 ? count_of(gpus, "GPU") : "no GPU",
                     variable);
}

std::string several_hint(std::int64_t workers, std::int64_t gpus) {
  return fmt::format("for several workers on each GPU, add --workers-per-gpu {}",
                     (workers + gpus - 1) / gpus);
}

// Checks that K GPUs for each of `workers` fit, which this host's agents have together.
void check_gpus_fit(const Sourced<int>& workers, const options::Options& options,
                    const facts::Snapshot& snapshot, const placement::VisibleDevices& devices) {
  if (!asks_for_gpus(options)) return;
  const std::int64_t each = gpus_a_worker(options);
  const std::int64_t gpus = count_visible(devices);
  const std::string& origin = options.gpus_per_worker.origin;
  if (devices.one_a_process && each > 1) {
    throw UsageError(
        fmt::format("{} asks for {} GPUs per worker, but a process can use one MIG instance only", origin,
                    each),
        fmt::format("leave {} out", origin));
  }
  if (each > gpus) {
    throw UsageError(fmt::format("{} asks for {} per worker, but {}", origin, count_of(each, "GPU"),
                                 shown_gpus(snapshot, devices)),
                     each == 1 ? fmt::format("leave {} out, or ask the scheduler for GPUs", origin)
                               : "give a smaller number, or ask the scheduler for more GPUs");
  }
  const std::int64_t room = gpus / each * options.workers_per_gpu;
  if (workers.value <= room) return;
  const std::string enough =
      fmt::format("{} are enough for {}", count_of(gpus, "GPU"), count_of(room, "worker"));
  throw UsageError(fmt::format("{} ({}) with {} do not fit: {}", count_of(workers.value, "worker"),
                               workers.origin, describe_share(options), shown_gpus(snapshot, devices)),
                   each > 1 ? enough : enough + "; " + several_hint(workers.value, gpus));
}

// Returns the number of this job's GPUs on the node, whatever the task sees of them; 0: not known.
std::int64_t gpus_on_node(const facts::Snapshot& snapshot) {
  return std::max<std::int64_t>(
      0, parse_integer(facts::find_variable(snapshot, "SLURM_GPUS_ON_NODE").value_or("0")).value_or(0));
}

// Each task sees a part of the node's GPUs, and the parts are not one task's alone.
bool are_parts_shared(const Sourced<int>& tasks, const facts::Snapshot& snapshot,
                      const placement::VisibleDevices& devices) {
  const std::int64_t gpus = count_visible(devices);
  const std::int64_t there = gpus_on_node(snapshot);
  return tasks.value > gpus && there > gpus && tasks.value * gpus > there;
}

[[noreturn]] void refuse_shared_parts(const allocation::Allocation& allocation, const Sourced<int>& tasks,
                                      const facts::Snapshot& snapshot,
                                      const placement::VisibleDevices& devices) {
  throw UsageError(
      fmt::format("{} ({}) share the {} of the node (SLURM_GPUS_ON_NODE), but {}: the device of a task's "
                  "LOCAL_RANK may not be among those that it sees",
                  count_of(tasks.value, "task"), tasks.origin, count_of(gpus_on_node(snapshot), "GPU"),
                  shown_gpus(snapshot, devices)),
      allocation.numbered_by_launcher
          ? "let the launcher show all GPUs of its node to every task"
          : "launch with srun --gpu-bind=none to let every task see all GPUs of its node");
}

// Checks that there is a GPU for each task. Scripts use device LOCAL_RANK: CUDA's "invalid device ordinal" in
// the last of them. A task that sees one GPU may have it to itself, and uses it as number 0.
void check_gpu_for_each_task(const Sourced<int>& tasks, const options::Options& options,
                             const facts::Snapshot& snapshot, const placement::VisibleDevices& devices) {
  const std::int64_t gpus = count_visible(devices);
  if (gpus < 2 || tasks.value <= gpus || asks_for_gpus(options)) return;
  const bool all = gpus_on_node(snapshot) == gpus;
  throw UsageError(
      fmt::format("{} ({}) with one worker each, but {}", count_of(tasks.value, "task"), tasks.origin,
                  shown_gpus(snapshot, devices)),
      fmt::format("start at most {} on this node; {}{}; for workers without GPUs, hide them with "
                  "CUDA_VISIBLE_DEVICES=",
                  count_of(gpus, "task"),
                  all ? ""
                      : fmt::format("if each has {} to itself, add --gpus-per-worker {}; ",
                                    count_of(gpus, "GPU"), gpus),
                  several_hint(tasks.value, gpus)));
}

// Checks that every worker has LOCAL_RANK 0 and its own device, or all would share the first one.
void check_virtual_ranks(const Sourced<int>& workers, const options::Options& options,
                         const facts::Snapshot& snapshot, const placement::VisibleDevices& devices) {
  const std::int64_t gpus = count_visible(devices);
  if (!options.virtual_local_rank || gpus == 0 || workers.value <= gpus * options.workers_per_gpu) return;
  throw UsageError(
      fmt::format("--virtual-local-rank gives each worker its own GPU, but {} has {} ({}) and {}",
                  snapshot.host.name, count_of(workers.value, "worker"), workers.origin,
                  shown_gpus(snapshot, devices)),
      fmt::format("start at most {}, or leave --virtual-local-rank out; {}", count_of(gpus, "worker"),
                  several_hint(workers.value, gpus)));
}

}  // namespace

bool asks_for_gpus(const options::Options& options) { return !options.gpus_per_worker.by_default(); }

// Shares out all visible GPUs: a rest would be a mistake in one of the numbers.
Sourced<int> share_out_gpus(const std::string& origin, const options::Options& options,
                            const facts::Snapshot& snapshot, const placement::VisibleDevices& devices) {
  const auto gpus = static_cast<int>(devices.entries.size());
  const int each = gpus_a_worker(options);
  if (options.workers_per_gpu > 1) {
    return {gpus * options.workers_per_gpu,
            fmt::format("{}: {}, {}", origin, devices.origin, describe_share(options))};
  }
  if (each == 1) return {gpus, fmt::format("{}: {}", origin, devices.origin)};
  check_gpus_fit({std::max(1, gpus / each), origin}, options, snapshot, devices);
  if (gpus % each != 0) {
    throw UsageError(
        fmt::format("workers with {} do not fit: {}", describe_share(options), shown_gpus(snapshot, devices)),
        fmt::format("give a number that divides {}, or set the number of workers with --nproc-per-node",
                    gpus));
  }
  return {gpus / each, fmt::format("{}: {}, {}", origin, devices.origin, describe_share(options))};
}

Sourced<int> one_for_each_gpu(const options::Options& options, const facts::Snapshot& snapshot,
                              const placement::VisibleDevices& devices) {
  const std::string& origin = options.workers.origin;
  if (!devices.entries.empty()) return share_out_gpus(origin, options, snapshot, devices);
  throw UsageError(
      fmt::format("{} asks for one worker per GPU, but {} shows no GPU", origin, snapshot.host.name),
      devices.variable.empty()
          ? "ask the scheduler for GPUs, or set the number of workers with --nproc-per-node N"
          : fmt::format("{} is '{}'", devices.variable,
                        printable(*facts::find_variable(snapshot, devices.variable))));
}

void check_gpus_of_workers(const Sourced<int>& workers, const options::Options& options,
                           const facts::Snapshot& snapshot, const placement::VisibleDevices& devices) {
  check_gpus_fit(workers, options, snapshot, devices);
  check_virtual_ranks(workers, options, snapshot, devices);
}

void check_gpus_of_tasks(const allocation::Allocation& allocation, const options::Options& options,
                         const facts::Snapshot& snapshot, const placement::VisibleDevices& devices) {
  const Sourced<int> tasks{tasks_on_this_host(allocation), tasks_origin(allocation)};
  if (count_visible(devices) > 1 && are_parts_shared(tasks, snapshot, devices))
    refuse_shared_parts(allocation, tasks, snapshot, devices);
  // A task that was given its GPUs sees no more than those.
  const bool own = options.workers_per_gpu == 1 && count_visible(devices) == gpus_a_worker(options);
  const Sourced<int> sharers{own ? 1 : tasks.value, tasks.origin};
  check_gpus_fit(sharers, options, snapshot, devices);
  check_gpu_for_each_task(sharers, options, snapshot, devices);
}

// Returns a notice if the last workers have no GPU: scripts use device LOCAL_RANK.
std::optional<allocation::Notice> find_too_few_gpus(const placement::VisibleDevices& devices,
                                                    const Sourced<int>& workers,
                                                    const options::Options& options) {
  const std::int64_t gpus = count_visible(devices);
  if (gpus == 0 || workers.value <= gpus * options.workers_per_gpu) return std::nullopt;
  return allocation::Notice{
      fmt::format("{} ({}) have {} ({})", count_of(workers.value, "worker"), workers.origin,
                  count_of(gpus, devices.one_a_process ? "MIG instance" : "GPU"), devices.origin),
      "for one worker per GPU, leave --nproc-per-node out; " + several_hint(workers.value, gpus)};
}

std::optional<allocation::Notice> find_high_local_ranks(const options::Options& options,
                                                        int local_world_size) {
  const Sourced<int>& each = options.gpus_per_worker;
  if (each.value < 2 || options.virtual_local_rank || local_world_size <= each.value) return std::nullopt;
  return allocation::Notice{
      fmt::format("LOCAL_RANK goes up to {}, but each worker sees {} ({}), numbered from 0",
                  local_world_size - 1, count_of(each.value, "GPU"), each.origin),
      "use device 0 and those after it in the script, not the one with the number LOCAL_RANK"};
}

namespace {

// Returns the GPU that a local peer's only worker calls `device`, if this process calls it so too.
std::optional<int> find_same(const std::vector<facts::Gpu>& gpus, const LocalPeer& local_peer) {
  if (local_peer.workers.size() != 1 || local_peer.workers.front().gpus.size() != 1) return std::nullopt;
  const LocalPeerWorker& worker = local_peer.workers.front();
  const auto found = placement::find_gpu(gpus, worker.device);
  if (!found || worker.gpus.front().empty()) return std::nullopt;
  const facts::Gpu& gpu = gpus[static_cast<std::size_t>(*found)];
  return gpu.pci_address == worker.gpus.front() && gpu.mig.empty() ? found : std::nullopt;
}

}  // namespace

std::vector<std::string> find_shared_devices(const std::vector<facts::Gpu>& gpus,
                                             const std::vector<LocalPeer>& local_peers) {
  std::vector<std::string> entries;
  std::set<int> taken;
  for (const LocalPeer& local_peer : local_peers) {
    const auto gpu = find_same(gpus, local_peer);
    const bool next = local_peer.first_local_rank.value == static_cast<int>(entries.size());
    if (!gpu || !next || !taken.insert(*gpu).second) return {};
    // Level Zero takes its list for a set: number 0 is the first of the host, not of the list.
    if (gpus[static_cast<std::size_t>(*gpu)].vendor == "intel" && *taken.rbegin() != *gpu) return {};
    entries.push_back(local_peer.workers.front().device);
  }
  const bool valid =
      placement::parse_device_list(join(entries, ",")).size() == entries.size();  // all of one form
  return valid && entries.size() > 1 ? entries : std::vector<std::string>{};
}

std::string announced_cpus(const NodeProposal& node, const facts::Snapshot& snapshot) {
  const bool binds = node.options.bind.mode != options::BindMode::none && snapshot.host.topology;
  return binds ? facts::render_cpu_list(snapshot.host.allowed_cpus) : std::string();
}

std::vector<LocalPeerWorker> announced_workers(const NodeProposal& node, const facts::Snapshot& snapshot) {
  std::vector<LocalPeerWorker> workers;
  // Nodes started by hand may share a host.
  if (node.allocation.style.value != allocation::LaunchStyle::agent_per_task &&
      node.allocation.scheduler.value != facts::Scheduler::manual)
    return workers;
  for (const OfferedWorker& offered : node.offered) {
    LocalPeerWorker worker{offered.device, {}};
    for (const int gpu : offered.gpus) {
      worker.gpus.push_back(
          facts::normal_pci_address(snapshot.host.gpus.at(static_cast<std::size_t>(gpu)).pci_address));
    }
    workers.push_back(std::move(worker));
  }
  return workers;
}

}  // namespace ddprun::plan
