#include "plan/propose.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <numeric>

#include "allocation/asked_tasks.hpp"
#include "allocation/detection/started.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "placement/assumed_topology.hpp"
#include "placement/devices.hpp"
#include "plan/gpu_count.hpp"
#include "plan/launch_nodes.hpp"
#include "plan/master_variables.hpp"
#include "plan/network_order.hpp"
#include "plan/node_proposal.hpp"
#include "plan/rendezvous_plan.hpp"
#include "plan/worker_command.hpp"
#include "plan/worker_count.hpp"
#include "plan/worker_env.hpp"
#include "plan/world_plan.hpp"
#include "site/site.hpp"

namespace ddprun::plan {

std::vector<int> workers_of_nodes(const NodeProposal& node) {
  const bool known = node.for_tasks && !node.allocation.node_rank && node.rendezvous.agents > 1 &&
                     allocation::asks_for_several(node.allocation);
  std::vector<int> tasks = known ? allocation::asked_tasks_of_hosts(node.allocation) : std::vector<int>();
  const int nodes = node.rendezvous.agents - node.options.spares.value;
  if (std::cmp_less(tasks.size(), nodes)) return {};
  tasks.resize(static_cast<std::size_t>(nodes));
  return tasks;
}

namespace {

std::string host_of(const allocation::Allocation& allocation, const facts::Snapshot& snapshot) {
  const bool named =
      allocation.scheduler.value == facts::Scheduler::slurm || !allocation.launcher.value.empty();
  const allocation::Host* const own = allocation::find_own_host(allocation);
  return named && own != nullptr ? own->name : snapshot.host.name;
}

void check_agents(const allocation::Allocation& allocation) {
  if (allocation.task_count.value <= k_max_agents) return;
  throw Error(fmt::format("{} counts {} ddprun processes, more than {}", allocation.task_count.origin,
                          allocation.task_count.value, k_max_agents),
              allocation.numbered_by_launcher ? "start one ddprun per node"
                                              : "start one ddprun per node: srun --ntasks-per-node=1 ...");
}

Sourced<std::string> make_run_id(const allocation::Allocation& allocation, const options::Options& options,
                                 const facts::Snapshot& snapshot) {
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

Sourced<std::string> choose_solo_address(const allocation::Allocation& allocation,
                                         const options::Options& options, const facts::HostFacts& host) {
  if (options.local_address) return *options.local_address;
  if (allocation.first_address) return *allocation.first_address;
  if (const auto own = find_own_master_address(options.place, host)) return *own;
  return {"127.0.0.1", "no other host takes part"};
}

Sourced<int> expect_world_size(const NodeProposal& node) {
  if (node.rendezvous.agents == 1) return node.workers;
  if (node.allocation.style.value == allocation::LaunchStyle::agent_per_task)
    return node.allocation.task_count;
  const int nodes = node.rendezvous.agents - node.options.spares.value;
  const std::vector<int> asked = workers_of_nodes(node);
  const std::int64_t size = asked.empty() ? std::int64_t{nodes} * node.workers.value
                                          : std::accumulate(asked.begin(), asked.end(), std::int64_t{0});
  if (size > k_max_world) {
    throw Error(fmt::format("{} nodes with {} each are {} in all, more than {}", nodes,
                            count_of(node.workers.value, "worker"), size, k_max_world),
                "start fewer workers with --nproc-per-node");
  }
  if (!asked.empty()) return {static_cast<int>(size), node.workers.origin};
  return {static_cast<int>(size),
          fmt::format("{}, if all have {}", count_of(nodes, "node"), count_of(node.workers.value, "worker"))};
}

std::string explain_ranks(const NodeProposal& node) {
  if (node.rendezvous.by_arrival && node.rendezvous.agent.value > 0) return "order of arrival";
  if (node.allocation.style.value == allocation::LaunchStyle::agent_per_task)
    return node.allocation.task_rank.origin;
  if (node.rendezvous.agents == 1) return "order on this host";
  std::string origin = "node order, then local rank";
  // The first node's ranks start at 0 whatever the others have.
  if (expected_place(node) > 0 && workers_of_nodes(node).empty()) {
    origin += fmt::format(", if all nodes have {}", count_of(node.workers.value, "worker"));
  }
  return origin;
}

// Gives the worker its share of the list by position, whatever the entries are. A task that sees no more than
// one worker's share has that.
void give_devices(OfferedWorker& worker, const placement::VisibleDevices& devices,
                  const options::Options& options) {
  const std::size_t count = devices.entries.size();
  const auto each = static_cast<std::size_t>(options.gpus_per_worker.value);
  const auto share = static_cast<std::size_t>(worker.local_rank.value / options.workers_per_gpu);
  const std::size_t first = count == each ? 0 : share * each;
  if (count < each || first > count - each) return;
  std::vector<std::string> entries;
  for (std::size_t i = first; i < first + each; ++i) {
    entries.push_back(devices.entries[i]);
    if (devices.gpus[i]) worker.gpus.push_back(*devices.gpus[i]);
  }
  worker.device = join(entries, ",");
}

void offer_workers(NodeProposal& node, const placement::VisibleDevices& devices,
                   const facts::Snapshot& snapshot) {
  const bool per_task = node.allocation.style.value == allocation::LaunchStyle::agent_per_task;
  const bool runs = !node.options.command.empty();
  const facts::ProgramKind kind =
      runs ? find_program_kind(node.options, snapshot) : facts::ProgramKind::missing;
  const bool inside = !node.options.container.words.empty();
  const bool by_python = runs && needs_python(node.options, kind);
  const std::string python = !by_python ? std::string()
                             : inside   ? find_python_inside(snapshot)
                                        : find_python(snapshot);
  const std::vector<int> asked = workers_of_nodes(node);
  const int place = expected_place(node);
  const int first = static_cast<std::size_t>(place) < asked.size()
                        ? std::accumulate(asked.begin(), asked.begin() + place, 0)
                        : place * node.workers.value;
  for (int i = 0; i < node.workers.value; ++i) {
    OfferedWorker worker;
    worker.local_rank = per_task ? node.allocation.task_local.value : LocalRank{i};
    worker.expected_rank.value = per_task ? node.allocation.task_rank.value : first + i;
    give_devices(worker, devices, node.options);
    if (runs) worker.command = make_worker_command(node.options, python, kind, worker.local_rank);
    node.offered.push_back(std::move(worker));
  }
}

// Makes cuda:LOCAL_RANK exist if one GPU is seen.
void adapt_to_one_gpu(NodeProposal& node) {
  if (!asks_for_gpus(node.options) || node.options.gpus_per_worker.value > 1) return;
  if (!node.virtual_local_rank.value) node.virtual_local_rank = {true, node.options.gpus_per_worker.origin};
}

// Adapts the proposal to MIG if a process can use one instance only: each worker then sees its own.
void adapt_to_instances(NodeProposal& node, const placement::VisibleDevices& devices) {
  if (!devices.one_a_process || node.virtual_local_rank.value) return;
  node.virtual_local_rank = {true, "one MIG instance per process"};
}

// Adapts to one agent a task if every task was given its own GPU: each sees it as number 0, whatever its
// local rank. Without a visibility variable it sees all that it can open. If that is more than its own, the
// agents may find at the start that they can all open each other's; until then no notice is given.
void adapt_to_own_device(NodeProposal& node, const placement::VisibleDevices& devices) {
  if (node.allocation.style.value != allocation::LaunchStyle::agent_per_task || node.local_world_size < 2)
    return;
  if (devices.entries.size() != 1 || node.virtual_local_rank.value) return;
  const bool opens_more = node.gpus.size() > 1;
  if (devices.variable.empty() && opens_more) return;
  node.own_device = true;
  node.virtual_local_rank = {true, opens_more ? "one visible GPU per task, unless all can open the others'"
                                              : "one visible GPU per task"};
  if (opens_more) return;
  node.notices.push_back(
      {fmt::format("every task sees one GPU only ({}={}), so workers get LOCAL_RANK 0 and direct GPU-to-GPU "
                   "transfers may be off",
                   devices.origin, devices.entries.front()),
       node.allocation.numbered_by_launcher
           ? "let the launcher show all GPUs of its node to every task"
           : "launch with srun --gpu-bind=none to let every task see all GPUs of its node"});
}

// Finds an option that has no effect, as it decides about a requeue only together with another one.
std::optional<allocation::Notice> find_idle_requeue(const options::TimeLimitOptions& limit) {
  const bool codes = !limit.requeue_on.value.empty();
  if (limit.requeue && !limit.signal && !codes && !limit.resumes) {
    return allocation::Notice{
        limit.requeue->origin +
            " has no effect without --signal-before-end, --checkpoint-flush or --requeue-on",
        "add --signal-before-end USR1@120 to requeue the job at its time limit, or --requeue-on CODES"};
  }
  if (limit.requeue || !codes) return std::nullopt;
  return allocation::Notice{limit.requeue_on.origin + " has no effect without --requeue", "add --requeue"};
}

// Finds --launcher-args where no ddprun starts this one: srun or mpiexec has been started without them.
std::optional<allocation::Notice> find_idle_launcher_args(const options::Options& options,
                                                          const facts::Snapshot& snapshot) {
  const auto given = options.given.find("launcher-args");
  if (given == options.given.end() ||
      facts::find_variable(snapshot, allocation::k_started_remote_launcher_variable))
    return std::nullopt;
  return allocation::Notice{given->second.origin + " has no effect: ddprun starts no remote launcher here",
                            "give these options to the launcher that starts ddprun"};
}

// Shows the workers the step's GPUs if Slurm's step has GPUs of its own but sets no variable for the runtime:
// without one, number 0 would be the host's first.
void show_step_devices(NodeProposal& node, const placement::VisibleDevices& devices) {
  const bool from_step = devices.variable.empty() && devices.of_step;
  const bool per_task = node.allocation.style.value == allocation::LaunchStyle::agent_per_task;
  const bool narrowed = node.virtual_local_rank.value || node.options.gpus_per_worker.value > 1;
  if (!from_step || per_task || narrowed || devices.entries.size() >= node.gpus.size()) return;
  node.changes.push_back({node.device_variable, join(devices.entries, ","), devices.origin});
}

void shorten_grace(NodeProposal& node) {
  Sourced<Milliseconds>& grace = node.options.shutdown_timeout;
  const facts::SchedulerTraits* const traits = facts::find_traits(node.allocation.scheduler.value);
  if (grace.by_default() && traits != nullptr && traits->grace > Milliseconds{0})
    grace = {traits->grace, std::string(traits->grace_origin)};
}

// Reports whether the coordinator finds the host's workers to be more than its CPUs, as those of other hosts.
bool is_told_for_all(const NodeProposal& node, const facts::Snapshot& snapshot) {
  return node.rendezvous.agents > 1 && !announced_cpus(node, snapshot).empty() &&
         std::cmp_greater(node.workers.value, snapshot.host.allowed_cpus.size()) &&
         node.allocation.style.value != allocation::LaunchStyle::agent_per_task;
}

// Reports whether ddprun's use of the connection would spoil it. Afterwards it still serves an MPI program of
// the only worker under hydra, but neither under Slurm's pmi2 (MPI_Init hangs) nor PMIx (it fails).
bool spoils_connection(const NodeProposal& node, const facts::Snapshot& snapshot) {
  const allocation::KeyValueSpace key_value_space = node.rendezvous.key_value_space;
  return key_value_space == allocation::KeyValueSpace::pmix ||
         facts::find_variable(snapshot, "PMIX_JOB_SIZE") ||
         (key_value_space == allocation::KeyValueSpace::pmi1 && node.allocation.launcher.value == "srun");
}

}  // namespace

NodeProposal propose_to_join(const facts::Snapshot& snapshot, const options::Options& options,
                             allocation::Allocation allocation) {
  NodeProposal node;
  node.options = options;
  node.allocation = std::move(allocation);
  check_agents(node.allocation);
  node.notices = node.allocation.notices;
  node.host = host_of(node.allocation, snapshot);
  node.workers = {1, "nothing to start"};
  node.rendezvous = make_rendezvous_plan(node.allocation, options, snapshot);
  choose_discovery(node.rendezvous, node.allocation, options, snapshot);
  apply_site(node, snapshot);
  if (node.allocation.first_port) node.store_port = node.allocation.first_port->value;
  return node;
}

NodeProposal propose(const facts::Snapshot& snapshot, const options::Options& options,
                     allocation::Allocation allocation) {
  NodeProposal node = propose_to_join(snapshot, options, std::move(allocation));
  apply_order(node, snapshot);
  const placement::VisibleDevices devices = placement::find_visible_devices(snapshot);
  node.device_variable = devices.narrowing;
  node.workers = count_workers(node.allocation, options, snapshot, devices);
  node.for_tasks = is_for_tasks(node.allocation, options, devices);
  node.local_world_size = node.allocation.style.value == allocation::LaunchStyle::agent_per_task
                              ? tasks_on_this_host(node.allocation)
                              : node.workers.value;
  check_spares(node);
  node.world_size = expect_world_size(node);
  node.rank_origin = explain_ranks(node);
  node.run_id = make_run_id(node.allocation, options, snapshot);
  node.solo_address = choose_solo_address(node.allocation, options, snapshot.host);

  if (options.virtual_local_rank) node.virtual_local_rank = {true, "--virtual-local-rank"};
  node.gpus = snapshot.host.gpus;
  adapt_to_one_gpu(node);
  adapt_to_instances(node, devices);
  adapt_to_own_device(node, devices);
  shorten_grace(node);
  const auto crowded = find_crowded_cores(node.allocation, snapshot,
                                          placement::node_name(snapshot.host, node.host), node.workers.value);
  if (crowded && is_told_for_all(node, snapshot)) node.crowded = crowded->what;
  for (const auto& notice :
       {find_unused_count(node.allocation, options),
        find_other_tasks(node.allocation, options, snapshot, devices, node.workers.value),
        find_too_few_gpus(devices, node.workers, options),
        find_high_local_ranks(options, node.local_world_size), crowded,
        placement::find_unsure_order(snapshot, devices, placement::node_name(snapshot.host, node.host)),
        find_foreign_address(node, snapshot.host), find_coordinator_beside_rank_0(node),
        find_misplaced_rank(node, snapshot), find_fixed_local_rank(options, node.world_size.value),
        find_endpoint_in_conf(options), find_odd_python(options, snapshot),
        find_strict_launcher(node, snapshot), find_idle_requeue(options.time_limit),
        find_idle_launcher_args(options, snapshot)}) {
    if (notice) node.notices.push_back(*notice);
  }
  node.missing_gpus = devices.missing;
  if (!devices.missing.empty()) node.notices.push_back(describe_missing_gpus(node.host, devices.missing));
  for (allocation::Notice& notice : find_unfollowed_master(node, snapshot))
    node.notices.push_back(std::move(notice));
  for (const std::string& doubt : snapshot.host.warnings) node.notices.push_back({doubt, ""});
  offer_workers(node, devices, snapshot);
  node.changes = scrub_changes(snapshot.environment, node.allocation, node.workers.value,
                               spoils_connection(node, snapshot));
  show_step_devices(node, devices);
  return node;
}

NodeProposal propose_as_task(const NodeProposal& node, const facts::Snapshot& snapshot) {
  allocation::Allocation allocation = node.allocation;
  allocation.style =
      sourced(allocation::LaunchStyle::agent_per_task, "another host runs several ddprun processes");
  allocation.style_assumed = false;
  options::Options options = node.options;
  options.order = options::Options{}.order;  // the ranks are the launcher's
  NodeProposal task = propose(snapshot, options, std::move(allocation));
  task.rendezvous = node.rendezvous;  // the agents have met already
  return task;
}

NodeProposal propose_for_tasks(const NodeProposal& node, int tasks, const facts::Snapshot& snapshot) {
  allocation::Allocation allocation = node.allocation;
  allocation.place_workers = sourced(tasks, "tasks of the job, as node 0 sees them");
  NodeProposal told = propose(snapshot, node.options, std::move(allocation));
  told.rendezvous = node.rendezvous;  // the agents have met already
  told.for_tasks = true;
  return told;
}

NodeProposal propose_as_member(const NodeProposal& node) {
  NodeProposal member = node;
  member.allocation.node_index.value.reset();
  member.rendezvous.role = RendezvousRole::member;
  member.rendezvous.agent = AgentIndex{1};
  return member;
}

namespace {

bool is_numeric(const std::string& host) {
  return host.find(':') != std::string::npos || host.find_first_not_of("0123456789.") == std::string::npos;
}

// Returns n1i.cluster for "n1.cluster" with the suffix "i"; n1.d with the domain d.
std::vector<std::string> names_at_site(const std::string& host, const site::SiteProfile& profile) {
  const std::string first{host.substr(0, host.find('.'))};
  const std::string rest = host.substr(first.size());
  std::vector<std::string> names;
  for (const std::string& suffix : profile.suffixes) {
    if (!first.ends_with(suffix)) names.push_back(first + suffix + rest);
  }
  for (const std::string& domain : profile.domains) names.push_back(first + "." + domain);
  return names;
}

// Adds names, best first: one that does not resolve fails by itself, and the plain one is tried beside it.
void add_names(RendezvousPlan& rendezvous, const site::SitePlan& site) {
  std::vector<std::string> names;
  const auto add = [&names](const std::string& name) {
    const bool known = std::ranges::find(names, name) != names.end();
    if (!known && names.size() < k_most_addresses) names.push_back(name);
  };
  for (const std::string& host : rendezvous.addresses.value) {
    if (!is_numeric(host)) {
      for (const std::string& name : names_at_site(host, site.profile)) add(name);
    }
    add(host);
  }
  if (names == rendezvous.addresses.value) return;
  rendezvous.addresses = {std::move(names),
                          fmt::format("{}, then {}", site.as_origin(), rendezvous.addresses.origin)};
}

void note_missing_interfaces(NodeProposal& node) {
  const site::SiteProfile& profile = node.site.profile;
  std::vector<std::string> missing;
  if (!profile.gloo_interfaces.empty() && !node.site.interfaces.contains("GLOO_SOCKET_IFNAME")) {
    missing = profile.gloo_interfaces;
  }
  if (!profile.nccl_interfaces.empty() && !node.site.interfaces.contains("NCCL_SOCKET_IFNAME") &&
      std::ranges::find(missing, profile.nccl_interfaces) == missing.end()) {
    missing.push_back(profile.nccl_interfaces);
  }
  if (missing.empty()) return;
  node.notices.push_back(
      {fmt::format("{} has none of the interfaces that the site {} ({}) names: {}", node.host, profile.name,
                   profile.source, join(missing, ", ")),
       "the interface of the rendezvous is used instead; --site none ignores the profile"});
}

}  // namespace

void apply_site(NodeProposal& node, const facts::Snapshot& snapshot) {
  node.site = site::choose_site(snapshot, node.options.site);
  node.notices.insert(node.notices.end(), node.site.notices.begin(), node.site.notices.end());
  RendezvousPlan& rendezvous = node.rendezvous;
  if (!node.site.known() || rendezvous.role == RendezvousRole::solo) return;
  note_missing_interfaces(node);
  const allocation::Allocation& allocation = node.allocation;
  if (!allocation.first_address) add_names(rendezvous, node.site);
  const auto& range = node.site.profile.ports;
  const bool reserved = allocation.reserved_ports && !allocation.reserved_ports->value.empty();
  if (!range || allocation.first_port || reserved) return;
  follow_sequence(rendezvous, {range->first, range->second},
                  fmt::format("{}, follows from {}", node.site.as_origin(), rendezvous.key));
}

}  // namespace ddprun::plan
