#include "allocation/schedulers/slurm_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "allocation/hostlist.hpp"
#include "allocation/manual.hpp"
#include "allocation/number_list.hpp"
#include "base/duration.hpp"
#include "base/error.hpp"

namespace ddprun::allocation {

namespace {

constexpr std::int64_t k_last_time = 253'402'300'799;  // the end of the year 9999

const char* describe(SlurmContext context) {
  constexpr const char* k_names[] = {"a step", "a batch script", "an interactive step",
                                     "a shell adopted into the job", "a shell of salloc"};
  return k_names[static_cast<std::size_t>(context)];
}

// Adds the job's fields to an allocation that did not come from it.
void add_job(const Allocation& job, Allocation& allocation) {
  allocation.job_id = job.job_id;
  allocation.restart_count = job.restart_count;
  allocation.job_nodes = job.job_nodes;
  allocation.end_time = job.end_time;
  allocation.cpus_on_node = job.cpus_on_node;
  allocation.asked_tasks = job.asked_tasks;
}

}  // namespace

SlurmFacts read_slurm_facts(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  SlurmFacts facts{snapshot, options, Variables(snapshot.environment), {}, SlurmContext::shell, {}, false};
  facts.job = parse_slurm_job(facts.variables);
  const auto place = find_slurm_place(snapshot.host);
  facts.context = decide_context(facts.variables, facts.job, place);
  facts.context_origin = place ? place->origin : describe(facts.context);
  facts.ours = is_proven_ours(facts.variables, snapshot.host, place);
  return facts;
}

std::optional<Sourced<std::vector<Host>>> find_asked_tasks(const SlurmFacts& facts) {
  const auto all = facts.variables.count("SLURM_NTASKS", 1);
  const auto each = facts.variables.count("SLURM_NTASKS_PER_NODE", 1);
  if ((!all && !each) || facts.job.components > 1) return std::nullopt;
  std::vector<Host> hosts;
  for (const std::string& host : facts.job.hosts) hosts.push_back({host, each ? each->value : 0});
  const auto text = facts.variables.text("SLURM_TASKS_PER_NODE");
  if (facts.context != SlurmContext::step && text) {
    const std::vector<int> counts = expand_counts(text->value, text->origin);
    const auto sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    if (counts.size() == hosts.size() && (!all || sum == all->value)) {
      for (std::size_t i = 0; i < hosts.size(); ++i) hosts[i].tasks = counts[i];
      return sourced(std::move(hosts), text->origin);
    }
  }
  return each ? std::optional(sourced(std::move(hosts), each->origin)) : std::nullopt;
}

Allocation start_allocation(const SlurmFacts& facts) {
  Allocation allocation;
  allocation.scheduler = sourced(facts::Scheduler::slurm, facts.job.id.origin);
  allocation.job_id = facts.job.id;
  allocation.job_nodes = facts.job.nodes;
  allocation.restart_count = facts.variables.count("SLURM_RESTART_COUNT", 0).value_or(by_default(0));
  allocation.end_time = facts.variables.number("SLURM_JOB_END_TIME", 0, k_last_time);
  if (facts.context != SlurmContext::step) allocation.asked_tasks = find_asked_tasks(facts);
  if (facts.context != SlurmContext::shell)
    allocation.cpus_on_node = facts.variables.count("SLURM_CPUS_ON_NODE", 1).value_or(Sourced<int>{});
  apply_coordinator_flags(facts.options, allocation);
  return allocation;
}

Allocation make_alone_in_job(const SlurmFacts& facts, const Sourced<std::string>& host,
                             const std::string& origin) {
  Allocation allocation = make_alone(facts.snapshot, facts.options, origin);
  const Allocation job = start_allocation(facts);
  allocation.scheduler = job.scheduler;
  add_job(job, allocation);
  allocation.hosts = sourced(std::vector<Host>{{host.value, 1}}, host.origin);
  return allocation;
}

Allocation follow_flags(const SlurmFacts& facts, const PlaceOptions& options) {
  Allocation manual = parse_manual(facts.snapshot, options);
  add_job(start_allocation(facts), manual);
  return manual;
}

// Throws if the job is over. Variables alone cannot show it, but its end time can; a time limit that was
// extended is not seen there, which is why a proof that the job is ours comes first.
void check_not_over(const SlurmFacts& facts, const Allocation& allocation) {
  if (facts.ours || !allocation.end_time) return;
  const std::int64_t ago = facts.snapshot.unix_time - allocation.end_time->value;
  if (ago <= 0) return;
  throw Error(
      fmt::format(
          "the variables of job {} are set ({}), but its time limit passed {} ago (SLURM_JOB_END_TIME)",
          facts.job.id.value, name_leaked_variables(facts.variables),
          describe_duration(std::chrono::seconds(std::min(ago, k_last_time)))),
      std::string(k_leak_hint) + "; if its time limit was extended, unset SLURM_JOB_END_TIME");
}

std::optional<int> find_own_node(const SlurmFacts& facts) {
  if (const auto found = find_host(facts.job.hosts, facts.snapshot.host.name)) return found;
  const auto node_name = facts.variables.text("SLURMD_NODENAME");
  return facts.ours && node_name ? find_host(facts.job.hosts, node_name->value) : std::nullopt;
}

void check_on_job_host(const SlurmFacts& facts) {
  if (facts.ours || find_own_node(facts) || facts.context == SlurmContext::shell) return;
  throw Error(
      fmt::format("the variables of job {} are set ({}), but this host, {}, is not in {}={}",
                  facts.job.id.value, name_leaked_variables(facts.variables), facts.snapshot.host.name,
                  facts.job.hosts_origin, compress_hostlist(facts.job.hosts)),
      k_leak_hint);
}

namespace {

// Reports whether srun started the daemon of an MPI launcher above this process, one a node; with one process
// a node the numbers of both may well agree, and then on some nodes only: those that kept variables of the
// batch script do not.
bool is_below_mpi_daemon(const facts::Snapshot& snapshot) {
  return has_ancestor(snapshot.host, {"hydra_pmi_proxy", "hydra_bstrap_proxy", "orted", "prted"});
}

}  // namespace

std::optional<LaunchPlace> find_foreign_place(const SlurmFacts& facts, const StepLayout* layout) {
  const std::string step =
      layout ? fmt::format("{}.{}", facts.job.id.value, *find_normal_step(facts.variables)) : std::string{};
  for (const LaunchPlace& place : find_launch_places(facts.snapshot)) {
    if (!place.slurm_step.empty() && place.slurm_step != step) continue;
    if (layout == nullptr || place.rank.value != layout->rank ||
        (place.size && place.size->value != layout->task_count) ||
        (place.slurm_step.empty() && (!ranks_agree(*layout) || is_below_mpi_daemon(facts.snapshot)))) {
      return place;
    }
  }
  return std::nullopt;
}

Allocation follow_foreign_place(const SlurmFacts& facts, const LaunchPlace& place) {
  if (is_complete_manual(facts.options) && !facts.options.standalone)
    return follow_flags(facts, facts.options);
  check_on_job_host(facts);
  Job job;
  job.name = "job " + facts.job.id.value;
  job.base = start_allocation(facts);
  job.base.asked_tasks = find_asked_tasks(facts);
  check_not_over(facts, job.base);
  job.hosts = sourced(facts.job.hosts, facts.job.hosts_origin);
  job.hosts_in_environment = !facts.job.hosts.empty();
  job.own = find_own_node(facts);
  if (facts.options.standalone) return stand_alone(job, facts.snapshot, facts.options, "--standalone");
  return follow_launcher(job, place, facts.snapshot, facts.options);
}

}  // namespace ddprun::allocation
