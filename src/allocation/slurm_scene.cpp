#include "ddprun/allocation/slurm_scene.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ddprun/allocation/by_hand.hpp"
#include "ddprun/allocation/hostlist.hpp"
#include "ddprun/base/duration.hpp"
#include "ddprun/base/error.hpp"

namespace ddprun {

namespace {

constexpr int k_most = std::numeric_limits<int>::max();
constexpr std::int64_t k_last_time = 253'402'300'799;  // the end of the year 9999

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

// The job's fields onto an allocation that did not come from it.
void add_job(const Allocation& job, Allocation& allocation) {
  allocation.job_id = job.job_id;
  allocation.restart_count = job.restart_count;
  allocation.job_nodes = job.job_nodes;
  allocation.end_time = job.end_time;
  allocation.cpus_on_node = job.cpus_on_node;
}

}  // namespace

SlurmScene read_slurm_scene(const Snapshot& snapshot, const PlaceOptions& options) {
  SlurmScene scene{snapshot, options, Variables(snapshot.environment), {}, SlurmContext::shell, {}, false};
  scene.job = parse_slurm_job(scene.variables);
  const auto place = find_slurm_place(snapshot.host);
  scene.context = decide_context(scene.variables, scene.job, place);
  scene.context_origin = place ? place->origin : describe(scene.context);
  scene.ours = is_proven_ours(scene.variables, snapshot.host, place);
  return scene;
}

Allocation start_allocation(const SlurmScene& scene) {
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

Allocation make_alone_in_job(const SlurmScene& scene, const Sourced<std::string>& host,
                             const std::string& origin) {
  Allocation allocation = make_alone(scene.snapshot, scene.options, origin);
  const Allocation job = start_allocation(scene);
  allocation.scheduler = job.scheduler;
  add_job(job, allocation);
  allocation.hosts = sourced(std::vector<Host>{{host.value, 1}}, host.origin);
  return allocation;
}

Allocation follow_flags(const SlurmScene& scene, const PlaceOptions& options) {
  Allocation by_hand = parse_by_hand(scene.snapshot, options);
  add_job(start_allocation(scene), by_hand);
  return by_hand;
}

// Variables alone cannot show that a job is over, but its end time can; a time limit that was extended is not
// seen there, which is why a proof that the job is ours comes first.
void check_not_over(const SlurmScene& scene, const Allocation& allocation) {
  if (scene.ours || !allocation.end_time) return;
  const std::int64_t ago = scene.snapshot.unix_time - allocation.end_time->value;
  if (ago <= 0) return;
  throw Error(
      fmt::format("the variables of job {} are set ({}), but its time was over {} ago (SLURM_JOB_END_TIME)",
                  scene.job.id.value, name_leaked_variables(scene.variables),
                  describe_duration(std::chrono::seconds(std::min(ago, k_last_time)))),
      std::string(k_leak_hint) + "; if its time limit was extended, unset SLURM_JOB_END_TIME");
}

std::optional<int> find_own_node(const SlurmScene& scene) {
  if (const auto found = find_host(scene.job.hosts, scene.snapshot.host.name)) return found;
  const auto node_name = scene.variables.text("SLURMD_NODENAME");
  return scene.ours && node_name ? find_host(scene.job.hosts, node_name->value) : std::nullopt;
}

void check_on_job_host(const SlurmScene& scene) {
  if (scene.ours || find_own_node(scene) || scene.context == SlurmContext::shell) return;
  throw Error(
      fmt::format("the variables of job {} are set ({}), but this host, {}, is not in {}={}",
                  scene.job.id.value, name_leaked_variables(scene.variables), scene.snapshot.host.name,
                  scene.job.hosts_origin, compress_hostlist(scene.job.hosts)),
      k_leak_hint);
}

namespace {

// The MPI launcher's daemon, one a node, is what srun started; with one process a node the numbers of both
// may well agree, and then on some nodes only: those that kept variables of the batch script do not.
bool is_below_mpi_daemon(const Snapshot& snapshot) {
  return has_ancestor(snapshot.host, {"hydra_pmi_proxy", "hydra_bstrap_proxy", "orted", "prted"});
}

}  // namespace

std::optional<LaunchPlace> find_foreign_place(const SlurmScene& scene, const StepLayout* layout) {
  const std::string step =
      layout ? fmt::format("{}.{}", scene.job.id.value, *find_normal_step(scene.variables)) : std::string{};
  for (const LaunchPlace& place : find_launch_places(scene.snapshot)) {
    if (!place.slurm_step.empty() && place.slurm_step != step) continue;
    if (layout == nullptr || place.rank.value != layout->rank ||
        (place.size && place.size->value != layout->task_count) ||
        (place.slurm_step.empty() && (!ranks_agree(*layout) || is_below_mpi_daemon(scene.snapshot)))) {
      return place;
    }
  }
  return std::nullopt;
}

Allocation follow_foreign_place(const SlurmScene& scene, const LaunchPlace& place) {
  if (is_complete_by_hand(scene.options) && !scene.options.standalone)
    return follow_flags(scene, scene.options);
  check_on_job_host(scene);
  Job job;
  job.name = "job " + scene.job.id.value;
  job.base = start_allocation(scene);
  check_not_over(scene, job.base);
  job.hosts = sourced(scene.job.hosts, scene.job.hosts_origin);
  job.hosts_in_environment = !scene.job.hosts.empty();
  job.own = find_own_node(scene);
  if (scene.options.standalone) return stand_alone(job, scene.snapshot, scene.options, "--standalone");
  return follow_launcher(job, place, scene.snapshot, scene.options);
}

}  // namespace ddprun
