#include "allocation/schedulers/slurm_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "allocation/hostlist.hpp"
#include "allocation/manual.hpp"
#include "allocation/schedulers/schedulers.hpp"
#include "allocation/schedulers/slurm_step.hpp"
#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

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

namespace {

constexpr std::int64_t k_max_job_id = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t k_first_special_step = 0xfffffff0;  // SLURM_MAX_NORMAL_STEP_ID of slurm.h
constexpr std::int64_t k_interactive_step = 0xfffffffa;    // SLURM_INTERACTIVE_STEP
constexpr int k_max_components = 1024;

// Returns SLURM_STEP_ID, negative numbers as the unsigned 32-bit ones they are: Slurm 26.05 prints -5 for a
// batch script where others print nothing or 4294967291.
std::optional<std::int64_t> find_step_id(const Variables& variables) {
  const char* name = variables.has("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID";
  const auto id = variables.number(name, -16, k_max_job_id);
  if (!id) return std::nullopt;
  return id->value < 0 ? id->value + k_max_job_id + 1 : id->value;
}

std::string describe(const SlurmPlace& place) {
  return fmt::format("job {} (found \"{}\")", place.job, place.origin);
}

// Returns a component's variable, which sbatch and salloc number by HET_GROUP, srun a : b (seen of 22.05) by
// PACK_GROUP, the name of before 20.02.
std::optional<Sourced<std::string>> of_component(const Variables& variables, const char* name,
                                                 int component) {
  const auto group = [&](const char* word) { return fmt::format("{}_{}_GROUP_{}", name, word, component); };
  return variables.text(group("HET"), group("PACK"));
}

bool belongs_to_job(const Variables& variables, const SlurmJob& job, std::int64_t number) {
  const std::string text = std::to_string(number);
  if (job.id.value == text) return true;
  for (int i = 0; job.components > 1 && i < job.components; ++i) {
    const auto component = of_component(variables, "SLURM_JOB_ID", i);
    if (component && component->value == text) return true;
  }
  return false;
}

void read_components(const Variables& variables, SlurmJob& job) {
  std::size_t count = 0;
  for (int i = 0; i < job.components; ++i) {
    const auto list = of_component(variables, "SLURM_JOB_NODELIST", i);
    if (!list) continue;
    count += count_hostlist(list->value, list->origin);
    if (count > k_max_hosts)
      throw Error(fmt::format("the components of job {} have more than {} hosts", job.id.value, k_max_hosts));
  }
  for (int i = 0; i < job.components; ++i) {
    const auto list = of_component(variables, "SLURM_JOB_NODELIST", i);
    if (!list) continue;
    for (std::string& host : expand_hostlist(list->value, list->origin)) job.hosts.push_back(std::move(host));
  }
  if (!job.hosts.empty()) job.hosts_origin = "SLURM_JOB_NODELIST_HET_GROUP_*";
}

bool step_fits_job(const Variables& variables, const SlurmJob& job) {
  const auto list = variables.text("SLURM_STEP_NODELIST");
  if (job.components > 1 || job.hosts.empty() || !list) return true;
  std::vector<std::string> known = job.hosts;
  std::sort(known.begin(), known.end());
  const auto step = expand_hostlist(list->value, list->origin);
  return std::all_of(step.begin(), step.end(), [&](const std::string& host) {
    return std::binary_search(known.begin(), known.end(), host);
  });
}

bool has_batch_marks(const Variables& variables) {
  const auto environment = variables.text("ENVIRONMENT");
  return environment && environment->value == "BATCH";
}

// Checks that the step's variables are there and of that step, if the kernel shows a task of srun.
void check_step_place(const SlurmPlace& place, std::optional<std::int64_t> step) {
  const std::string found = fmt::format("this process runs in step {} of {}", place.step, describe(place));
  if (!step) {
    throw Error(found + ", but no SLURM_STEP_ID is set",
                "pass srun's variables on to ddprun: something between srun and ddprun clears them");
  }
  if (*step != place.step) {
    throw Error(fmt::format("SLURM_STEP_ID={} belongs to another step: {}", *step, found),
                "start ddprun directly with srun, without changing its variables");
  }
}

// Decides the context by the variables alone, if there is no other evidence.
SlurmContext decide_from_variables(const Variables& variables, const SlurmJob& job,
                                   std::optional<std::int64_t> step) {
  const bool list = variables.has("SLURM_STEP_NODELIST");
  const SlurmContext outside =
      has_batch_marks(variables) || variables.has("SLURM_PROCID") ? SlurmContext::batch : SlurmContext::shell;
  if (!step) {
    if (list && !has_batch_marks(variables)) {
      throw Error("SLURM_STEP_NODELIST is set, but SLURM_STEP_ID is not", k_leak_hint);
    }
    return outside;
  }
  if (!list)
    throw Error(fmt::format("SLURM_STEP_ID={} is set, but SLURM_STEP_NODELIST is not", *step), k_leak_hint);
  if (step_fits_job(variables, job)) return SlurmContext::step;
  if (has_batch_marks(variables)) return SlurmContext::batch;
  throw Error(fmt::format("SLURM_STEP_NODELIST={} is not part of job {} ({}={})",
                          printable(variables.text("SLURM_STEP_NODELIST")->value, 80), job.id.value,
                          job.hosts_origin, compress_hostlist(job.hosts)),
              k_leak_hint);
}

}  // namespace

SlurmJob parse_slurm_job(const Variables& variables) {
  SlurmJob job;
  const char* id_name = variables.has("SLURM_JOB_ID") ? "SLURM_JOB_ID" : "SLURM_JOBID";
  const auto id = variables.number(id_name, 1, k_max_job_id);
  if (!id) throw Error("SLURM_JOB_ID is not set");
  job.id = sourced(std::to_string(id->value), id_name);
  if (const auto size = variables.number("SLURM_HET_SIZE", 1, k_max_components))
    job.components = static_cast<int>(size->value);
  if (job.components > 1) read_components(variables, job);
  if (job.hosts.empty()) {
    if (const auto list = variables.text("SLURM_JOB_NODELIST", "SLURM_NODELIST")) {
      job.hosts = expand_hostlist(list->value, list->origin);
      job.hosts_origin = list->origin;
      if (job.hosts.empty()) throw Error(list->origin + " names no host", k_leak_hint);
    }
  }
  const auto stated = variables.number("SLURM_JOB_NUM_NODES", 1, k_max_hosts);
  const auto listed = static_cast<std::int64_t>(job.hosts.size());
  if (job.components == 1 && stated && listed > 0 && stated->value != listed) {
    throw Error(fmt::format("SLURM_JOB_NUM_NODES={}, but {}={} has {}", stated->value, job.hosts_origin,
                            compress_hostlist(job.hosts), listed),
                k_leak_hint);
  }
  if (listed > 0) {
    job.nodes = sourced(static_cast<int>(listed), job.hosts_origin);
  } else if (stated) {
    job.nodes = sourced(static_cast<int>(stated->value), stated->origin);
  }
  return job;
}

std::optional<std::int64_t> find_normal_step(const Variables& variables) {
  const auto id = find_step_id(variables);
  return id && *id < k_first_special_step ? id : std::nullopt;
}

SlurmContext decide_context(const Variables& variables, const SlurmJob& job,
                            const std::optional<SlurmPlace>& place) {
  if (place && !belongs_to_job(variables, job, place->job)) {
    throw Error(fmt::format("the variables of job {} are set ({}), but this process runs in {}", job.id.value,
                            name_leaked_variables(variables), describe(*place)),
                k_leak_hint);
  }
  const auto step = find_normal_step(variables);
  if (place && place->context != SlurmContext::step) return place->context;
  if (place) {
    check_step_place(*place, step);
    return SlurmContext::step;
  }
  const auto id = find_step_id(variables);
  if (id == k_interactive_step) return SlurmContext::interactive;
  if (id && !step) return SlurmContext::batch;
  return decide_from_variables(variables, job, step);
}

bool is_proven_ours(const Variables& variables, const facts::HostFacts& host,
                    const std::optional<SlurmPlace>& place) {
  if (place) return true;
  const auto task = variables.number("SLURM_TASK_PID", 0, std::numeric_limits<int>::max());
  if (!task) return false;
  const auto is_task = [&](const facts::Ancestor& ancestor) { return ancestor.pid == task->value; };
  return task->value == host.pid || std::any_of(host.ancestors.begin(), host.ancestors.end(), is_task);
}

std::string name_leaked_variables(const Variables& variables) {
  std::vector<std::string> names;
  if (!variables.has("SLURM_JOB_ID")) names.emplace_back("SLURM_JOBID");
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_PROCID",
                           "SLURM_NODEID", "SLURMD_NODENAME"}) {
    if (variables.has(name)) names.emplace_back(name);
  }
  return join(names, ", ");
}

namespace {

Allocation describe_job(const SlurmFacts& facts, std::optional<int> own) {
  Allocation allocation = start_allocation(facts);
  allocation.style = sourced(LaunchStyle::not_started, facts.context_origin);
  if (facts.options.run_id) allocation.instance = *facts.options.run_id;
  allocation.hosts.origin = facts.job.hosts_origin;
  for (const std::string& host : facts.job.hosts) allocation.hosts.value.push_back({host, 1});
  if (own) allocation.node_index = {NodeIndex{*own}, "host name"};
  allocation.task_count = sourced(static_cast<int>(facts.job.hosts.size()), facts.job.hosts_origin);
  if (facts.job.components > 1) allocation.components = sourced(facts.job.components, "SLURM_HET_SIZE");
  return allocation;
}

void check_nodes_available(const SlurmFacts& facts) {
  const auto& nodes = facts.options.nodes;
  if (!nodes || nodes->value <= static_cast<int>(facts.job.hosts.size())) return;
  throw UsageError(
      fmt::format("{} {}, but job {} has {} ({})", nodes->origin, nodes->value, facts.job.id.value,
                  count_of(static_cast<std::int64_t>(facts.job.hosts.size()), "node"),
                  compress_hostlist(facts.job.hosts)),
      fmt::format("request {} nodes for the job (sbatch -N{}), or add --node-rank and --master-addr to join "
                  "hosts manually",
                  nodes->value, nodes->value));
}

Allocation parse_outside_step(const SlurmFacts& facts) {
  const bool manual = is_complete_manual(facts.options);
  if (facts.job.hosts.empty()) {
    throw Error(fmt::format("job {} is set ({}), but SLURM_JOB_NODELIST is not", facts.job.id.value,
                            facts.job.id.origin),
                k_leak_hint);
  }
  const auto own = find_own_node(facts);
  check_on_job_host(facts);
  check_not_over(facts, start_allocation(facts));
  if (const auto foreign = find_foreign_place(facts, nullptr)) return follow_foreign_place(facts, *foreign);
  if (manual && !facts.options.standalone) return follow_flags(facts, facts.options);
  const std::string host = own ? facts.job.hosts[static_cast<std::size_t>(*own)] : facts.snapshot.host.name;
  if (facts.options.standalone)
    return make_alone_in_job(facts, sourced(host, facts.job.hosts_origin), "--standalone");
  check_nodes_available(facts);
  if (own && facts.job.hosts.size() == 1)
    return make_alone_in_job(facts, sourced(host, facts.job.hosts_origin), facts.job.hosts_origin);
  if (own && facts.options.nodes && facts.options.nodes->value == 1)
    return make_alone_in_job(facts, sourced(host, facts.job.hosts_origin), facts.options.nodes->origin);
  return describe_job(facts, own);
}

}  // namespace

bool has_slurm_job(const facts::Snapshot& snapshot) {
  return Variables(snapshot.environment).text("SLURM_JOB_ID", "SLURM_JOBID").has_value();
}

Allocation parse_slurm(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  const SlurmFacts facts = read_slurm_facts(snapshot, options);
  return facts.context == SlurmContext::step ? parse_in_step(facts) : parse_outside_step(facts);
}

}  // namespace ddprun::allocation
