#include "ddprun/plan/node_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/plan/devices.hpp"
#include "ddprun/plan/ports.hpp"
#include "ddprun/plan/worker_command.hpp"
#include "ddprun/plan/worker_env.hpp"

namespace ddprun {

namespace {

std::string host_of(const Allocation& allocation, const Snapshot& snapshot) {
  const auto index = static_cast<std::size_t>(allocation.node_index.value.value);
  const bool named = allocation.scheduler.value == Scheduler::slurm && index < allocation.hosts.value.size();
  return named ? allocation.hosts.value[index].name : snapshot.host.name;
}

// The exact line that starts one agent on every node of the allocation.
std::string srun_line(const Allocation& allocation, const Snapshot& snapshot) {
  std::vector<std::string> words{"srun", fmt::format("-N{}", allocation.hosts.value.size()),
                                 "--ntasks-per-node=1"};
  if (allocation.cpus_on_node.value > 1) {
    words.push_back(fmt::format("-c{}", allocation.cpus_on_node.value));
  }
  words.emplace_back("ddprun");
  words.insert(words.end(), snapshot.arguments.begin(), snapshot.arguments.end());
  return shell_quote(words);
}

void refuse_unstarted(const Allocation& allocation, const Snapshot& snapshot) {
  if (allocation.style.value != LaunchStyle::not_started) return;
  throw Error(fmt::format("job {} has {} nodes, but ddprun was started on {} alone, outside any step of it",
                          allocation.job_id.value, allocation.hosts.value.size(), snapshot.host.name),
              "start it on every node with: " + srun_line(allocation, snapshot));
}

int tasks_on_this_host(const Allocation& allocation) {
  const auto index = static_cast<std::size_t>(allocation.node_index.value.value);
  return index < allocation.hosts.value.size() ? allocation.hosts.value[index].tasks : 1;
}

Sourced<int> count_workers(const Allocation& allocation, const Options& options, const Snapshot& snapshot,
                           const VisibleDevices& devices) {
  if (allocation.style.value == LaunchStyle::agent_per_task) return {1, allocation.style.origin};
  const auto device_count = static_cast<int>(devices.entries.size());
  const int cpus = std::max<int>(1, static_cast<int>(snapshot.host.allowed_cpus.size()));
  const std::string& origin = options.workers.origin;
  switch (options.workers.kind) {
    case WorkersKind::number:
      return {options.workers.number, origin};
    case WorkersKind::cpu:
      return {cpus, fmt::format("{}: CPUs this process may use", origin)};
    case WorkersKind::auto_count:
      if (device_count == 0) return {cpus, fmt::format("{}: no GPU, so CPUs", origin)};
      return {device_count, fmt::format("{}: {}", origin, devices.origin)};
    case WorkersKind::gpu:
    case WorkersKind::xpu:
      if (device_count == 0) {
        throw Error(
            fmt::format("{} asks for one worker a GPU, but {} shows no GPU", origin, snapshot.host.name),
            devices.variable.empty()
                ? "ask the scheduler for GPUs, or say how many workers with --nproc-per-node N"
                : fmt::format("{} is '{}'", devices.variable,
                              printable(*find_variable(snapshot, devices.variable))));
      }
      return {device_count, fmt::format("{}: {}", origin, devices.origin)};
    case WorkersKind::unset:
      break;
  }
  if (device_count == 0) return {1, "default: no GPU visible"};
  return {device_count, "default: " + devices.origin};
}

// Cores one worker of this agent may use. Several agents of a host either own a part of it each, or were left
// unbound and all see the whole: then their common mask is shared out.
Sourced<int> count_threads(const Allocation& allocation, const Snapshot& snapshot, int workers) {
  if (find_variable(snapshot, "OMP_NUM_THREADS")) return {0, "OMP_NUM_THREADS of the environment"};
  const HostFacts& host = snapshot.host;
  const auto cpus = static_cast<int>(host.allowed_cpus.size());
  const int cores = std::max(1, host.allowed_cores > 0 ? host.allowed_cores : cpus);
  const int tasks = tasks_on_this_host(allocation);
  const int granted = allocation.cpus_on_node.value > 0 ? allocation.cpus_on_node.value : host.online_cpus;
  const bool mask_is_shared = tasks > 1 && cpus * tasks > granted;
  const int sharers = workers * (mask_is_shared ? tasks : 1);
  int usable = cores;
  std::string origin = fmt::format("{} cores", cores);
  if (host.cpu_quota && *host.cpu_quota < usable) {
    usable = std::max(1, static_cast<int>(std::ceil(*host.cpu_quota)));
    origin = fmt::format("cgroup limit of {:.3g} CPUs", *host.cpu_quota);
  }
  if (sharers > 1) origin += fmt::format(" for {} workers", sharers);
  return {std::max(1, usable / sharers), origin};
}

void notice_too_few_cores(NodePlan& plan, const Snapshot& snapshot) {
  const auto cpus = static_cast<int>(snapshot.host.allowed_cpus.size());
  const int workers = plan.workers.value;
  if (cpus == 0 || workers <= cpus) return;
  const bool slurm = plan.allocation.scheduler.value == Scheduler::slurm;
  const int wanted = std::max(plan.allocation.cpus_on_node.value, workers);
  plan.notices.push_back(
      {fmt::format("{} workers share {} {} on {}", workers, cpus, cpus == 1 ? "core" : "cores", plan.host),
       slurm ? fmt::format("give the step its node's cores: srun -c{} (or --cpu-bind=none)", wanted)
             : "start fewer workers with --nproc-per-node, or widen the CPU mask of this shell"});
}

RendezvousPlan make_rendezvous_plan(const Allocation& allocation, const Options& options) {
  RendezvousPlan rendezvous;
  rendezvous.key = launch_key(allocation);
  rendezvous.join_timeout = options.join_timeout.value;
  int before_this_host = 0;
  const auto& hosts = allocation.hosts.value;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (int task = 0; task < hosts[i].tasks; ++task) rendezvous.peers.push_back(hosts[i].name);
    if (static_cast<int>(i) < allocation.node_index.value.value) before_this_host += hosts[i].tasks;
  }
  rendezvous.agents = std::max<int>(1, static_cast<int>(rendezvous.peers.size()));
  rendezvous.agent = AgentIndex{before_this_host + allocation.task_local.value.value};
  if (rendezvous.agents == 1) return rendezvous;

  rendezvous.role = rendezvous.agent.value == 0 ? RendezvousRole::coordinator : RendezvousRole::member;
  if (allocation.first_address) {
    rendezvous.addresses = {{allocation.first_address->value}, allocation.first_address->origin};
  } else {
    rendezvous.addresses = {{rendezvous.peers.front()}, allocation.hosts.origin + ", first host"};
  }
  if (allocation.first_port) {
    rendezvous.ports = {{allocation.first_port->value}, allocation.first_port->origin};
  } else if (allocation.reserved_ports && !allocation.reserved_ports->value.empty()) {
    // Cray's PMI takes the first of them for itself.
    rendezvous.ports = {allocation.reserved_ports->value,
                        allocation.reserved_ports->origin + ", from the end"};
    std::reverse(rendezvous.ports.value.begin(), rendezvous.ports.value.end());
  } else {
    rendezvous.ports = {make_port_sequence(rendezvous.key), "sequence of " + rendezvous.key};
  }
  return rendezvous;
}

std::string make_run_id(const Allocation& allocation, const Options& options, const Snapshot& snapshot) {
  if (options.place.run_id) return options.place.run_id->value;
  if (!allocation.job_id.value.empty()) {
    return allocation.step_id.value.empty()
               ? allocation.job_id.value
               : fmt::format("{}.{}", allocation.job_id.value, allocation.step_id.value);
  }
  return fmt::format("{}.{}", snapshot.unix_time, snapshot.host.pid);
}

std::optional<Sourced<int>> known_world_size(const NodePlan& plan) {
  if (plan.rendezvous.agents == 1) return plan.workers;
  if (plan.allocation.style.value == LaunchStyle::agent_per_task) return plan.allocation.task_count;
  return sourced(plan.rendezvous.agents * plan.workers.value,
                 fmt::format("{} nodes with {} workers each, if all have as many", plan.rendezvous.agents,
                             plan.workers.value));
}

void plan_workers(NodePlan& plan, const VisibleDevices& devices, const Snapshot& snapshot) {
  const std::string python = find_python(snapshot);
  const ProgramKind kind = find_program_kind(plan.options, snapshot);
  if (!devices.variable.empty()) plan.device_variable = devices.variable;
  const bool per_task = plan.allocation.style.value == LaunchStyle::agent_per_task;
  for (int i = 0; i < plan.workers.value; ++i) {
    PlannedWorker worker;
    worker.local_rank = per_task ? plan.allocation.task_local.value : LocalRank{i};
    worker.rank = per_task ? GlobalRank{plan.allocation.task_rank.value}
                           : GlobalRank{plan.rendezvous.agent.value * plan.workers.value + i};
    const auto index = static_cast<std::size_t>(devices.entries.size() == 1 ? 0 : worker.local_rank.value);
    if (index < devices.entries.size()) worker.device = devices.entries[index];
    worker.command = make_worker_command(plan.options, python, kind, worker.local_rank);
    plan.planned.push_back(std::move(worker));
  }
}

// One agent a task where every task was given its own GPU: each sees it as number 0, whatever its local rank.
void adapt_to_private_devices(NodePlan& plan, const VisibleDevices& devices) {
  if (plan.allocation.style.value != LaunchStyle::agent_per_task || plan.local_world_size < 2) return;
  if (devices.entries.size() != 1 || plan.options.virtual_local_rank) return;
  plan.options.virtual_local_rank = true;
  plan.notices.push_back(
      {fmt::format("every task sees one GPU only ({}={}), so workers get LOCAL_RANK 0 and direct GPU-to-GPU "
                   "transfers may be off",
                   devices.origin, devices.entries.front()),
       "launch with srun --gpu-bind=none to let every task see all GPUs of its node"});
}

void shorten_grace_below_kill_wait(NodePlan& plan) {
  Sourced<Milliseconds>& grace = plan.options.shutdown_timeout;
  if (plan.allocation.scheduler.value != Scheduler::slurm || grace.origin != "default") return;
  grace = {Milliseconds{25000}, "default under Slurm, whose KillWait is 30 s"};
}

}  // namespace

NodePlan make_node_plan(const Snapshot& snapshot, const Options& options) {
  NodePlan plan;
  plan.options = options;
  plan.allocation = detect_allocation(snapshot, options.place);
  refuse_unstarted(plan.allocation, snapshot);
  plan.notices = plan.allocation.notices;
  plan.host = host_of(plan.allocation, snapshot);

  const VisibleDevices devices = find_visible_devices(snapshot);
  plan.workers = count_workers(plan.allocation, options, snapshot, devices);
  plan.local_world_size = plan.allocation.style.value == LaunchStyle::agent_per_task
                              ? tasks_on_this_host(plan.allocation)
                              : plan.workers.value;
  plan.threads = count_threads(plan.allocation, snapshot, plan.workers.value);
  plan.rendezvous = make_rendezvous_plan(plan.allocation, options);
  plan.world_size = known_world_size(plan);
  plan.run_id = make_run_id(plan.allocation, options, snapshot);
  plan.solo_address = options.local_address           ? options.local_address->value
                      : plan.allocation.first_address ? plan.allocation.first_address->value
                                                      : "127.0.0.1";
  if (plan.allocation.first_port) plan.store_port = plan.allocation.first_port->value;

  adapt_to_private_devices(plan, devices);
  shorten_grace_below_kill_wait(plan);
  notice_too_few_cores(plan, snapshot);
  plan_workers(plan, devices, snapshot);
  plan.changes = scrub_changes(snapshot.environment, plan.allocation, plan.workers.value);
  return plan;
}

}  // namespace ddprun
