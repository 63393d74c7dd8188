#include "ddprun/plan/make_node_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/placement/assumed_topology.hpp"
#include "ddprun/placement/devices.hpp"
#include "ddprun/plan/master_variables.hpp"
#include "ddprun/plan/node_binding.hpp"
#include "ddprun/plan/open_mpi_settings.hpp"
#include "ddprun/plan/rendezvous_plan.hpp"
#include "ddprun/plan/unlike_gpus.hpp"
#include "ddprun/plan/worker_command.hpp"
#include "ddprun/plan/worker_count.hpp"
#include "ddprun/plan/worker_env.hpp"
#include "ddprun/plan/world_plan.hpp"
#include "discovery.hpp"
#include "follow_binding.hpp"

namespace ddprun {

namespace {

std::string host_of(const Allocation& allocation, const Snapshot& snapshot) {
  const bool named = allocation.scheduler.value == Scheduler::slurm || !allocation.launcher.value.empty();
  const Host* const own = find_own_host(allocation);
  return named && own != nullptr ? own->name : snapshot.host.name;
}

void check_agents(const Allocation& allocation) {
  if (allocation.task_count.value <= k_max_agents) return;
  throw Error(fmt::format("{} counts {} ddprun processes, more than {}", allocation.task_count.origin,
                          allocation.task_count.value, k_max_agents),
              allocation.numbered_by_launcher ? "start one ddprun per node"
                                              : "start one ddprun per node: srun --ntasks-per-node=1 ...");
}

Sourced<std::string> make_run_id(const Allocation& allocation, const Options& options,
                                 const Snapshot& snapshot) {
  if (options.place.run_id) return *options.place.run_id;
  // Under an MPI launcher over ssh only its first host may know the job.
  if (!allocation.launch_id.value.empty()) return allocation.launch_id;
  const Sourced<std::string>& job = allocation.job_id;
  const Sourced<std::string>& step = allocation.step_id;
  if (job.value.empty()) {
    return {fmt::format("{}.{}", snapshot.unix_time, snapshot.host.pid), "time and process"};
  }
  if (step.value.empty()) return job;
  return {fmt::format("{}.{}", job.value, step.value), fmt::format("{} and {}", job.origin, step.origin)};
}

Sourced<std::string> choose_solo_address(const Allocation& allocation, const Options& options,
                                         const HostFacts& host) {
  if (options.local_address) return *options.local_address;
  if (allocation.first_address) return *allocation.first_address;
  if (const auto own = find_own_master_address(options.place, host)) return *own;
  return {"127.0.0.1", "no other host takes part"};
}

Sourced<int> expect_world_size(const NodePlan& plan) {
  if (plan.rendezvous.agents == 1) return plan.workers;
  if (plan.allocation.style.value == LaunchStyle::agent_per_task) return plan.allocation.task_count;
  const std::int64_t size = std::int64_t{plan.rendezvous.agents} * plan.workers.value;
  if (size > k_max_world) {
    throw Error(fmt::format("{} nodes with {} each are {} in all, more than {}", plan.rendezvous.agents,
                            count_of(plan.workers.value, "worker"), size, k_max_world),
                "start fewer workers with --nproc-per-node");
  }
  return {static_cast<int>(size), fmt::format("{} nodes, if all have {}", plan.rendezvous.agents,
                                              count_of(plan.workers.value, "worker"))};
}

std::string explain_ranks(const NodePlan& plan) {
  if (plan.rendezvous.by_arrival && plan.rendezvous.agent.value > 0) return "order of arrival";
  if (plan.allocation.style.value == LaunchStyle::agent_per_task) return plan.allocation.task_rank.origin;
  if (plan.rendezvous.agents == 1) return "order on this host";
  std::string origin = "node order, then local rank";
  // The first node's ranks start at 0 whatever the others have.
  if (place_among_hosts(plan) > 0) {
    origin += fmt::format(", if all nodes have {}", count_of(plan.workers.value, "worker"));
  }
  return origin;
}

// By position in the list, whatever its entries are. A task that sees no more than one worker's share has
// that.
void give_devices(PlannedWorker& worker, const VisibleDevices& devices, std::size_t each) {
  const std::size_t count = devices.entries.size();
  const std::size_t first = count == each ? 0 : static_cast<std::size_t>(worker.local_rank.value) * each;
  if (count < each || first > count - each) return;
  std::vector<std::string> entries;
  for (std::size_t i = first; i < first + each; ++i) {
    entries.push_back(devices.entries[i]);
    if (devices.gpus[i] >= 0) worker.gpus.push_back(devices.gpus[i]);
  }
  worker.device = join(entries, ",");
}

void plan_workers(NodePlan& plan, const VisibleDevices& devices, const Snapshot& snapshot) {
  const bool per_task = plan.allocation.style.value == LaunchStyle::agent_per_task;
  const bool runs = !plan.options.command.empty();
  const ProgramKind kind = runs ? find_program_kind(plan.options, snapshot) : ProgramKind::missing;
  const std::string python = runs && needs_python(plan.options, kind) ? find_python(snapshot) : std::string();
  for (int i = 0; i < plan.workers.value; ++i) {
    PlannedWorker worker;
    worker.local_rank = per_task ? plan.allocation.task_local.value : LocalRank{i};
    worker.rank.value =
        per_task ? plan.allocation.task_rank.value : place_among_hosts(plan) * plan.workers.value + i;
    give_devices(worker, devices, static_cast<std::size_t>(plan.options.gpus_per_worker.value));
    if (runs) worker.command = make_worker_command(plan.options, python, kind, worker.local_rank);
    plan.planned.push_back(std::move(worker));
  }
}

// cuda:LOCAL_RANK has to exist where one GPU is seen.
void adapt_to_one_gpu(NodePlan& plan) {
  if (!asks_for_gpus(plan.options) || plan.options.gpus_per_worker.value > 1) return;
  if (!plan.virtual_local_rank.value) plan.virtual_local_rank = {true, plan.options.gpus_per_worker.origin};
}

// Where a process can use one MIG instance only, each worker sees its own.
void adapt_to_instances(NodePlan& plan, const VisibleDevices& devices) {
  if (!devices.one_a_process || plan.virtual_local_rank.value) return;
  plan.virtual_local_rank = {true, "one MIG instance per process"};
}

// One agent a task where every task was given its own GPU: each sees it as number 0, whatever its local rank.
// Without a visibility variable it sees all that it can open. Where that is more than its own, the agents may
// find at the start that they can all open each other's; until then nothing is said.
void adapt_to_own_device(NodePlan& plan, const VisibleDevices& devices) {
  if (plan.allocation.style.value != LaunchStyle::agent_per_task || plan.local_world_size < 2) return;
  if (devices.entries.size() != 1 || plan.virtual_local_rank.value) return;
  const bool opens_more = plan.gpus.size() > 1;
  if (devices.variable.empty() && opens_more) return;
  plan.own_device = true;
  plan.virtual_local_rank = {true, opens_more ? "one visible GPU per task, unless all can open the others'"
                                              : "one visible GPU per task"};
  if (opens_more) return;
  plan.notices.push_back(
      {fmt::format("every task sees one GPU only ({}={}), so workers get LOCAL_RANK 0 and direct GPU-to-GPU "
                   "transfers may be off",
                   devices.origin, devices.entries.front()),
       plan.allocation.numbered_by_launcher
           ? "let the launcher show all GPUs of its node to every task"
           : "launch with srun --gpu-bind=none to let every task see all GPUs of its node"});
}

// Slurm's step has GPUs of its own, but no variable tells the runtime: without one, number 0 would be the
// host's first.
void show_step_devices(NodePlan& plan, const VisibleDevices& devices) {
  const bool from_step = devices.variable.empty() && devices.of_step;
  const bool per_task = plan.allocation.style.value == LaunchStyle::agent_per_task;
  const bool narrowed = plan.virtual_local_rank.value || plan.options.gpus_per_worker.value > 1;
  if (!from_step || per_task || narrowed || devices.entries.size() >= plan.gpus.size()) return;
  plan.changes.push_back({plan.device_variable, join(devices.entries, ","), devices.origin});
}

void shorten_grace(NodePlan& plan) {
  Sourced<Milliseconds>& grace = plan.options.shutdown_timeout;
  const SchedulerTraits* const traits = find_traits(plan.allocation.scheduler.value);
  if (grace.by_default() && traits != nullptr && traits->grace > Milliseconds{0})
    grace = {traits->grace, std::string(traits->grace_origin)};
}

// After ddprun has used it, the connection still serves an MPI program of the only worker under hydra, but
// neither Slurm's pmi2 (MPI_Init hangs) nor PMIx (it fails).
bool spoils_connection(const NodePlan& plan, const Snapshot& snapshot) {
  const KeyValueSpace key_value_space = plan.rendezvous.key_value_space;
  return key_value_space == KeyValueSpace::pmix || find_variable(snapshot, "PMIX_JOB_SIZE") ||
         (key_value_space == KeyValueSpace::pmi1 && plan.allocation.launcher.value == "srun");
}

}  // namespace

NodePlan make_join_plan(const Snapshot& snapshot, const Options& options, Allocation allocation) {
  NodePlan plan;
  plan.options = options;
  plan.allocation = std::move(allocation);
  check_agents(plan.allocation);
  plan.notices = plan.allocation.notices;
  plan.host = host_of(plan.allocation, snapshot);
  plan.workers = {1, "nothing to start"};
  plan.rendezvous = make_rendezvous_plan(plan.allocation, options, snapshot);
  choose_discovery(plan.rendezvous, plan.allocation, options, snapshot);
  apply_site(plan, snapshot);
  if (plan.allocation.first_port) plan.store_port = plan.allocation.first_port->value;
  return plan;
}

NodePlan make_node_plan(const Snapshot& snapshot, const Options& options, Allocation allocation) {
  NodePlan plan = make_join_plan(snapshot, options, std::move(allocation));
  const VisibleDevices devices = find_visible_devices(snapshot);
  plan.device_variable = devices.narrowing;
  plan.workers = count_workers(plan.allocation, options, snapshot, devices);
  plan.local_world_size = plan.allocation.style.value == LaunchStyle::agent_per_task
                              ? tasks_on_this_host(plan.allocation)
                              : plan.workers.value;
  plan.world_size = expect_world_size(plan);
  plan.rank_origin = explain_ranks(plan);
  plan.run_id = make_run_id(plan.allocation, options, snapshot);
  plan.solo_address = choose_solo_address(plan.allocation, options, snapshot.host);

  if (options.virtual_local_rank) plan.virtual_local_rank = {true, "--virtual-local-rank"};
  plan.gpus = snapshot.host.gpus;
  adapt_to_one_gpu(plan);
  adapt_to_instances(plan, devices);
  adapt_to_own_device(plan, devices);
  shorten_grace(plan);
  for (const auto& notice :
       {find_unused_count(plan.allocation, options), find_too_few_gpus(devices, plan.workers),
        find_crowded_cores(plan.allocation, snapshot, node_name(snapshot.host, plan.host),
                           plan.workers.value),
        find_unsure_order(snapshot, devices, node_name(snapshot.host, plan.host)),
        find_foreign_address(plan, snapshot.host)}) {
    if (notice) plan.notices.push_back(*notice);
  }
  plan.missing_gpus = devices.missing;
  if (!devices.missing.empty()) plan.notices.push_back(describe_missing_gpus(plan.host, devices.missing));
  for (Notice& notice : find_unfollowed_master(plan, snapshot)) plan.notices.push_back(std::move(notice));
  for (const std::string& doubt : snapshot.host.warnings) plan.notices.push_back({doubt, ""});
  plan_workers(plan, devices, snapshot);
  bind_workers(plan, snapshot, {});
  if (const auto notice = find_many_threads(plan, snapshot)) plan.notices.push_back(*notice);
  if (const auto notice = find_bound_agent(plan, snapshot)) plan.notices.push_back(*notice);
  plan.changes = scrub_changes(snapshot.environment, plan.allocation, plan.workers.value,
                               spoils_connection(plan, snapshot));
  show_step_devices(plan, devices);
  if (const auto notice = find_no_card(plan, snapshot)) plan.notices.push_back(*notice);
  return plan;
}

NodePlan replan_as_task(const NodePlan& plan, const Snapshot& snapshot) {
  Allocation allocation = plan.allocation;
  allocation.style = sourced(LaunchStyle::agent_per_task, "another host runs several ddprun processes");
  allocation.style_assumed = false;
  NodePlan task = make_node_plan(snapshot, plan.options, std::move(allocation));
  task.rendezvous = plan.rendezvous;  // the agents have met already
  return task;
}

}  // namespace ddprun
