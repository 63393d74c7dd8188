#include "ddprun/allocation/slurm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ddprun/allocation/by_hand.hpp"
#include "ddprun/allocation/hostlist.hpp"
#include "ddprun/allocation/mpi_launcher.hpp"
#include "ddprun/allocation/number_list.hpp"
#include "ddprun/allocation/slurm_context.hpp"
#include "ddprun/allocation/slurm_step.hpp"
#include "ddprun/base/duration.hpp"
#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

constexpr int k_most = std::numeric_limits<int>::max();
constexpr std::int64_t k_last_time = 253'402'300'799;  // the end of the year 9999

// What the functions below look at, read once.
struct Scene {
  const Snapshot& snapshot;
  const PlaceOptions& options;
  Variables variables;
  SlurmJob job;
  SlurmContext context = SlurmContext::shell;
  std::string context_origin;  // what told the context
  bool ours = false;           // something not inherited says so
};

const char* describe(SlurmContext context) {
  switch (context) {
    case SlurmContext::step:
      return "a step";
    case SlurmContext::batch:
      return "a batch script";
    case SlurmContext::interactive:
      return "an interactive step";
    case SlurmContext::external:
      return "a shell adopted into the job";
    case SlurmContext::shell:
      return "a shell of salloc";
  }
  return "";
}

Scene read_scene(const Snapshot& snapshot, const PlaceOptions& options) {
  Scene scene{snapshot, options, Variables(snapshot.environment), {}, SlurmContext::shell, {}, false};
  scene.job = parse_slurm_job(scene.variables);
  const auto place = find_slurm_place(snapshot.host);
  scene.context = decide_context(scene.variables, scene.job, place);
  scene.context_origin = place ? place->origin : describe(scene.context);
  scene.ours = is_proven_ours(scene.variables, snapshot.host, place);
  return scene;
}

std::string count_nodes(std::size_t count) {
  return fmt::format("{} node{}", count, count == 1 ? "" : "s");
}

Allocation start_allocation(const Scene& scene) {
  Allocation allocation;
  allocation.scheduler = sourced(Scheduler::slurm, scene.job.id.origin);
  allocation.job_id = scene.job.id;
  allocation.job_nodes = scene.job.nodes;
  const auto restarts = scene.variables.number("SLURM_RESTART_COUNT", 0, k_most);
  allocation.restart_count =
      restarts ? sourced(static_cast<int>(restarts->value), restarts->origin) : sourced(0, "default");
  allocation.end_time = scene.variables.number("SLURM_JOB_END_TIME", 0, k_last_time);
  if (scene.context != SlurmContext::shell) {
    if (const auto cpus = scene.variables.number("SLURM_CPUS_ON_NODE", 1, k_most))
      allocation.cpus_on_node = sourced(static_cast<int>(cpus->value), cpus->origin);
  }
  apply_coordinator_flags(scene.options, allocation);
  return allocation;
}

// Variables alone cannot show that a job is over, but its end time can; a time limit that was extended is not
// seen there, which is why a proof that the job is ours comes first.
void check_not_over(const Scene& scene, const Allocation& allocation) {
  if (scene.ours || !allocation.end_time) return;
  const std::int64_t ago = scene.snapshot.unix_time - allocation.end_time->value;
  if (ago <= 0) return;
  throw Error(
      fmt::format("the variables of job {} are set ({}), but its time was over {} ago (SLURM_JOB_END_TIME)",
                  scene.job.id.value, name_leaked_variables(scene.variables),
                  describe_duration(std::chrono::seconds(std::min(ago, k_last_time)))),
      std::string(k_leak_hint) + "; if its time limit was extended, unset SLURM_JOB_END_TIME");
}

// An MPI launcher's ranks that Slurm's variables do not account for. Ranks that srun's PMI plug-ins set for
// another step are leftovers and say nothing.
std::optional<MpiPlace> find_foreign_rank(const Scene& scene, const StepLayout* layout) {
  const std::string step =
      layout ? fmt::format("{}.{}", scene.job.id.value, *find_normal_step(scene.variables)) : std::string{};
  for (const MpiPlace& place : find_mpi_places(scene.variables)) {
    if (!place.slurm_step.empty() && place.slurm_step != step) continue;
    if (layout == nullptr) {
      if (!place.size || place.size->value > 1) return place;
    } else if (place.rank.value != layout->rank || (place.size && place.size->value != layout->task_count) ||
               (place.slurm_step.empty() && !ranks_agree(*layout))) {
      return place;
    }
  }
  return std::nullopt;
}

std::string contradict(const Scene& scene, const MpiPlace& place, const StepLayout* layout) {
  if (layout == nullptr)
    return fmt::format("{} is set where job {} has no step", describe(place), scene.job.id.value);
  const bool same_rank =
      place.rank.value == layout->rank && (!place.size || place.size->value == layout->task_count);
  if (same_rank) return fmt::format("{} is set and SLURM_GTIDS is another node's", describe(place));
  return fmt::format("{} contradicts SLURM_PROCID={} (of {})", describe(place), layout->rank,
                     layout->task_count);
}

[[noreturn]] void refuse_mpi(const Scene& scene, const MpiPlace& place, const StepLayout* layout) {
  throw Error(contradict(scene, place, layout) + ": an MPI launcher started this ddprun, not srun",
              "start it with srun instead of mpiexec or mpirun: srun --ntasks-per-node=1 ddprun ...; or say "
              "where it is with --nnodes, --node-rank and --master-addr");
}

Allocation follow_flags(const Scene& scene) {
  Allocation by_hand = parse_by_hand(scene.snapshot, scene.options);
  const Allocation slurm = start_allocation(scene);
  by_hand.job_id = slurm.job_id;
  by_hand.restart_count = slurm.restart_count;
  by_hand.job_nodes = slurm.job_nodes;
  by_hand.end_time = slurm.end_time;
  by_hand.cpus_on_node = slurm.cpus_on_node;
  return by_hand;
}

// ---- inside a step ----

void check_host(const Scene& scene, const StepLayout& layout) {
  const auto& claimed = layout.hosts[static_cast<std::size_t>(layout.node)];
  const std::string& own = scene.snapshot.host.name;
  const auto node_name = scene.variables.text("SLURMD_NODENAME");
  if (node_name && !same_host(node_name->value, claimed)) {
    throw Error(fmt::format("SLURMD_NODENAME={} and SLURM_NODEID={} do not fit: node {} of "
                            "SLURM_STEP_NODELIST={} is {}",
                            printable(node_name->value, 80), layout.node, layout.node,
                            compress_hostlist(layout.hosts), claimed),
                k_leak_hint);
  }
  // NodeName and host name may differ, so a proof that the step is ours counts for more than the name.
  if (scene.ours || same_host(claimed, own)) return;
  if (find_host(layout.hosts, own)) {
    throw Error(
        fmt::format("SLURM_NODEID={} is {}, but this host is {}: the variables were carried over from "
                    "another node",
                    layout.node, claimed, own),
        "start ddprun on every node with srun: variables that ssh takes along are the first node's");
  }
  throw Error(fmt::format("the variables of job {} are set ({}), but this host, {}, is not in "
                          "SLURM_STEP_NODELIST={}",
                          scene.job.id.value, name_leaked_variables(scene.variables), own,
                          compress_hostlist(layout.hosts)),
              k_leak_hint);
}

void check_ranks(const Scene& scene, const StepLayout& layout) {
  if (ranks_agree(layout)) return;
  throw Error(
      fmt::format("SLURM_PROCID={} with SLURM_LOCALID={} is not what SLURM_GTIDS={} says", layout.rank,
                  layout.local, printable(scene.variables.text("SLURM_GTIDS")->value, 80)),
      k_leak_hint);
}

void check_flags(const Scene& scene, const StepLayout& layout) {
  const PlaceOptions& options = scene.options;
  const std::size_t count = layout.hosts.size();
  if (options.nodes && static_cast<std::int64_t>(options.nodes->value) != static_cast<std::int64_t>(count)) {
    throw UsageError(fmt::format("{} {}, but srun started this step on {} ({})", options.nodes->origin,
                                 options.nodes->value, count_nodes(count), compress_hostlist(layout.hosts)),
                     fmt::format("leave {} out, or start on as many nodes: srun -N{} ...",
                                 options.nodes->origin, options.nodes->value));
  }
  if (options.node_rank && options.node_rank->value != layout.node) {
    throw UsageError(fmt::format("{} {}, but {} is node {} of the step (SLURM_NODEID)",
                                 options.node_rank->origin, options.node_rank->value,
                                 layout.hosts[static_cast<std::size_t>(layout.node)], layout.node),
                     fmt::format("leave {} out: in a step ddprun knows it", options.node_rank->origin));
  }
  if (options.address && count > 1 && is_loopback_name(options.address->value)) {
    throw UsageError(fmt::format("{} {} is another host on each of the step's {}", options.address->origin,
                                 options.address->value, count_nodes(count)),
                     fmt::format("leave {} out: ddprun uses {}, the step's first node",
                                 options.address->origin, layout.hosts.front()));
  }
}

// srun made the workers already: more of them for each would start tasks x workers on a host.
void check_workers(const Scene& scene, const StepLayout& layout) {
  const auto& workers = scene.options.workers_per_node;
  const auto most = std::max_element(layout.tasks.begin(), layout.tasks.end());
  if (!workers || workers->value <= 1 || *most <= 1) return;
  const std::string& host = layout.hosts[static_cast<std::size_t>(most - layout.tasks.begin())];
  throw UsageError(
      fmt::format("srun started {} ddprun on {} and {} {} asks each of them for {} workers: {} in all", *most,
                  host, workers->origin, workers->value, workers->value,
                  static_cast<std::int64_t>(*most) * workers->value),
      fmt::format("start one ddprun a node (srun --ntasks-per-node=1 ...), or leave {} out to get one "
                  "worker a task",
                  workers->origin));
}

void add_step_notices(const Scene& scene, const StepLayout& layout, Allocation& allocation) {
  const std::size_t count = layout.hosts.size();
  const int job_nodes = scene.job.nodes.value;
  if (static_cast<std::int64_t>(count) < job_nodes && !scene.options.nodes) {
    allocation.notices.push_back(
        {fmt::format("the step has {} of the job's {} nodes ({})", count, job_nodes,
                     compress_hostlist(layout.hosts)),
         fmt::format("to use all of them: srun -N{} ...; if this is meant, --nnodes {} silences this",
                     job_nodes, count)});
  }
  const auto [least, most] = std::minmax_element(layout.tasks.begin(), layout.tasks.end());
  if (*least != *most && scene.job.components == 1) {
    const auto name = [&](auto task) {
      return layout.hosts[static_cast<std::size_t>(task - layout.tasks.begin())];
    };
    allocation.notices.push_back(
        {fmt::format("srun started {} ddprun on {}, but {} on {}", *most, name(most), *least, name(least)),
         "for the same number on every node: srun --ntasks-per-node=N ..."});
  }
}

std::vector<int> read_reserved_ports(const Sourced<std::string>& list) {
  std::vector<int> ports = expand_numbers(list.value, list.origin, 65535);
  std::sort(ports.begin(), ports.end());
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  return ports;
}

Allocation describe_step(const Scene& scene, const StepLayout& layout) {
  Allocation allocation = start_allocation(scene);
  const bool one_each = *std::max_element(layout.tasks.begin(), layout.tasks.end()) == 1;
  const std::string tasks = "SLURM_STEP_TASKS_PER_NODE";
  allocation.style = sourced(one_each ? LaunchStyle::agent_per_node : LaunchStyle::agent_per_task, tasks);
  allocation.step_id = sourced(std::to_string(*find_normal_step(scene.variables)), "SLURM_STEP_ID");
  if (scene.options.run_id) allocation.instance = *scene.options.run_id;
  allocation.hosts.origin = "SLURM_STEP_NODELIST";
  for (std::size_t i = 0; i < layout.hosts.size(); ++i)
    allocation.hosts.value.push_back({layout.hosts[i], layout.tasks[i]});
  allocation.node_index = sourced(NodeIndex{layout.node}, "SLURM_NODEID");
  allocation.task_count = sourced(layout.task_count, tasks);
  allocation.task_rank = sourced(layout.rank, "SLURM_PROCID");
  allocation.task_local = sourced(LocalRank{layout.local}, "SLURM_LOCALID");
  if (const auto ports = scene.variables.text("SLURM_STEP_RESV_PORTS"))
    allocation.reserved_ports = sourced(read_reserved_ports(*ports), ports->origin);
  return allocation;
}

// Every task of the step is a launch of its own, which is seldom meant where there are several.
Allocation stand_alone_in_step(const Scene& scene, const StepLayout& layout) {
  const Allocation step = describe_step(scene, layout);
  Allocation allocation = make_alone(scene.snapshot, scene.options, "--standalone");
  allocation.scheduler = step.scheduler;
  allocation.job_id = step.job_id;
  allocation.step_id = step.step_id;
  allocation.restart_count = step.restart_count;
  allocation.job_nodes = step.job_nodes;
  allocation.cpus_on_node = step.cpus_on_node;
  allocation.end_time = step.end_time;
  allocation.hosts.value[0].name = layout.hosts[static_cast<std::size_t>(layout.node)];
  allocation.hosts.origin = "SLURM_STEP_NODELIST";
  if (layout.task_count > 1) {
    allocation.notices.push_back(
        {fmt::format("--standalone makes each of the step's {} ddprun a launch of its own",
                     layout.task_count),
         "leave --standalone out to join them"});
  }
  return allocation;
}

Allocation parse_step(const Scene& scene) {
  const StepLayout layout = parse_step_layout(scene.variables);
  if (const auto foreign = find_foreign_rank(scene, &layout)) {
    if (is_complete_by_hand(scene.options)) return follow_flags(scene);
    refuse_mpi(scene, *foreign, &layout);
  }
  check_ranks(scene, layout);
  check_host(scene, layout);
  if (scene.options.standalone) return stand_alone_in_step(scene, layout);
  check_flags(scene, layout);
  check_workers(scene, layout);
  Allocation allocation = describe_step(scene, layout);
  check_not_over(scene, allocation);
  add_step_notices(scene, layout, allocation);
  return allocation;
}

// ---- in a batch script or a shell ----

// This host among the job's: by its own name, else by slurmd's name for it, which is inherited by ssh.
std::optional<int> find_own_node(const Scene& scene) {
  if (const auto found = find_host(scene.job.hosts, scene.snapshot.host.name)) return found;
  const auto node_name = scene.variables.text("SLURMD_NODENAME");
  return scene.ours && node_name ? find_host(scene.job.hosts, node_name->value) : std::nullopt;
}

void check_on_job_host(const Scene& scene, bool on_node) {
  if (scene.ours || on_node || scene.context == SlurmContext::shell) return;
  throw Error(
      fmt::format("the variables of job {} are set ({}), but this host, {}, is not in {}={}",
                  scene.job.id.value, name_leaked_variables(scene.variables), scene.snapshot.host.name,
                  scene.job.hosts_origin, compress_hostlist(scene.job.hosts)),
      k_leak_hint);
}

Allocation alone_in_job(const Scene& scene, const std::string& host, const std::string& origin) {
  const Allocation job = start_allocation(scene);
  Allocation allocation = make_alone(scene.snapshot, scene.options, origin);
  allocation.scheduler = job.scheduler;
  allocation.job_id = job.job_id;
  allocation.restart_count = job.restart_count;
  allocation.job_nodes = job.job_nodes;
  allocation.cpus_on_node = job.cpus_on_node;
  allocation.end_time = job.end_time;
  allocation.hosts = sourced(std::vector<Host>{{host, 1}}, scene.job.hosts_origin);
  return allocation;
}

Allocation describe_job(const Scene& scene, std::optional<int> own) {
  Allocation allocation = start_allocation(scene);
  allocation.style = sourced(LaunchStyle::not_started, scene.context_origin);
  if (scene.options.run_id) allocation.instance = *scene.options.run_id;
  allocation.hosts.origin = scene.job.hosts_origin;
  for (const std::string& host : scene.job.hosts) allocation.hosts.value.push_back({host, 1});
  if (own) allocation.node_index = sourced(NodeIndex{*own}, "host name");
  allocation.task_count = sourced(static_cast<int>(scene.job.hosts.size()), scene.job.hosts_origin);
  if (scene.job.components > 1) {
    allocation.notices.push_back(
        {fmt::format(
             "job {} has {} components (SLURM_HET_SIZE), and srun starts on the first alone unless told",
             scene.job.id.value, scene.job.components),
         fmt::format("srun --het-group=0-{} ...", scene.job.components - 1)});
  }
  return allocation;
}

void check_nodes_available(const Scene& scene) {
  const auto& nodes = scene.options.nodes;
  if (!nodes || nodes->value <= static_cast<int>(scene.job.hosts.size())) return;
  throw UsageError(
      fmt::format("{} {}, but job {} has {} ({})", nodes->origin, nodes->value, scene.job.id.value,
                  count_nodes(scene.job.hosts.size()), compress_hostlist(scene.job.hosts)),
      fmt::format("ask for {} nodes when submitting (sbatch -N{}), or add --node-rank and --master-addr "
                  "to join hosts by hand",
                  nodes->value, nodes->value));
}

Allocation parse_outside_step(const Scene& scene) {
  const bool by_hand = is_complete_by_hand(scene.options);
  if (const auto foreign = find_foreign_rank(scene, nullptr);
      foreign && !by_hand && !scene.options.standalone)
    refuse_mpi(scene, *foreign, nullptr);
  if (scene.job.hosts.empty()) {
    throw Error(fmt::format("job {} is set ({}), but SLURM_JOB_NODELIST is not", scene.job.id.value,
                            scene.job.id.origin),
                k_leak_hint);
  }
  const auto own = find_own_node(scene);
  check_on_job_host(scene, own.has_value());
  check_not_over(scene, start_allocation(scene));
  if (by_hand && !scene.options.standalone) return follow_flags(scene);
  const std::string host = own ? scene.job.hosts[static_cast<std::size_t>(*own)] : scene.snapshot.host.name;
  if (scene.options.standalone) return alone_in_job(scene, host, "--standalone");
  check_nodes_available(scene);
  if (own && scene.job.hosts.size() == 1) return alone_in_job(scene, host, scene.job.hosts_origin);
  if (own && scene.options.nodes && scene.options.nodes->value == 1)
    return alone_in_job(scene, host, scene.options.nodes->origin);
  return describe_job(scene, own);
}

}  // namespace

bool has_slurm_job(const Snapshot& snapshot) {
  return Variables(snapshot.environment).text("SLURM_JOB_ID", "SLURM_JOBID").has_value();
}

Allocation parse_slurm(const Snapshot& snapshot, const PlaceOptions& options) {
  const Scene scene = read_scene(snapshot, options);
  return scene.context == SlurmContext::step ? parse_step(scene) : parse_outside_step(scene);
}

}  // namespace ddprun
