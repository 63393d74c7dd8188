#include "allocation/schedulers/slurm_step.hpp"

#include "allocation/schedulers/slurm_facts.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <numeric>

#include "allocation/asked_tasks.hpp"
#include "allocation/hostlist.hpp"
#include "allocation/launchers/launchers.hpp"
#include "allocation/manual.hpp"
#include "allocation/schedulers/job_end.hpp"
#include "allocation/variables.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

[[noreturn]] void fail_torn(const std::string& what) {
  throw Error(what,
              "the variables come from different launches or were edited; start ddprun with srun from a "
              "fresh shell, or clear them with `unset ${!SLURM_@}`");
}

Sourced<std::string> require_text(const Variables& variables, const std::string& name) {
  auto value = variables.text(name);
  if (!value) fail_torn(fmt::format("SLURM_STEP_ID is set, but {} is not", name));
  return *value;
}

int require_number(const Variables& variables, const std::string& name) {
  const auto value = variables.count(name, 0);
  if (!value) fail_torn(fmt::format("SLURM_STEP_ID is set, but {} is not", name));
  return value->value;
}

void check_count(const Variables& variables, const std::string& name, std::int64_t counted,
                 const std::string& where) {
  const auto stated = variables.number(name, 0, k_most);
  if (stated && stated->value != counted)
    fail_torn(fmt::format("{}={}, but {} has {}", name, stated->value, where, counted));
}

// Throws if a host is listed twice: two entries would be two agents with the same place.
void check_unique(const std::vector<std::string>& hosts) {
  std::vector<std::string> sorted = hosts;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) fail_torn(fmt::format("SLURM_STEP_NODELIST names {} twice", *twice));
}

void check_layout(const Variables& variables, const StepLayout& layout) {
  check_count(variables, "SLURM_STEP_NUM_NODES", static_cast<std::int64_t>(layout.hosts.size()),
              fmt::format("SLURM_STEP_NODELIST={}", compress_hostlist(layout.hosts)));
  if (layout.tasks.size() != layout.hosts.size()) {
    fail_torn(fmt::format("SLURM_STEP_TASKS_PER_NODE counts {}, but SLURM_STEP_NODELIST={} has {}",
                          count_of(static_cast<std::int64_t>(layout.tasks.size()), "node"),
                          compress_hostlist(layout.hosts), layout.hosts.size()));
  }
  if (layout.node >= static_cast<int>(layout.hosts.size())) {
    fail_torn(fmt::format("SLURM_NODEID={}, but SLURM_STEP_NODELIST={} has {}", layout.node,
                          compress_hostlist(layout.hosts),
                          count_of(static_cast<std::int64_t>(layout.hosts.size()), "node")));
  }
  if (layout.rank >= layout.task_count)
    fail_torn(fmt::format("SLURM_PROCID={}, but the step has {}", layout.rank,
                          count_of(layout.task_count, "task")));
  const int here = layout.tasks[static_cast<std::size_t>(layout.node)];
  if (layout.local >= here) {
    fail_torn(fmt::format("SLURM_LOCALID={}, but the step has {} on node {} (SLURM_STEP_TASKS_PER_NODE)",
                          layout.local, count_of(here, "task"), layout.node));
  }
}

}  // namespace

StepLayout parse_step_layout(const Variables& variables) {
  StepLayout layout;
  const auto list = require_text(variables, "SLURM_STEP_NODELIST");
  layout.hosts = expand_hostlist(list.value, list.origin);
  if (layout.hosts.empty()) fail_torn("SLURM_STEP_NODELIST names no host");
  const auto tasks = require_text(variables, "SLURM_STEP_TASKS_PER_NODE");
  layout.tasks = expand_counts(tasks.value, tasks.origin);
  const auto sum = std::accumulate(layout.tasks.begin(), layout.tasks.end(), std::int64_t{0});
  if (sum > k_most) fail_torn("SLURM_STEP_TASKS_PER_NODE has more tasks than can be counted");
  check_count(variables, "SLURM_STEP_NUM_TASKS", sum, "SLURM_STEP_TASKS_PER_NODE=" + tasks.value);
  layout.task_count = static_cast<int>(sum);
  layout.node = require_number(variables, "SLURM_NODEID");
  layout.rank = require_number(variables, "SLURM_PROCID");
  layout.local = require_number(variables, "SLURM_LOCALID");
  check_unique(layout.hosts);
  check_layout(variables, layout);
  if (const auto ranks = variables.text("SLURM_GTIDS"))
    layout.local_ranks = expand_numbers(ranks->value, ranks->origin, k_most - 1);
  return layout;
}

bool ranks_agree(const StepLayout& layout) {
  if (layout.local_ranks.empty()) return true;
  const auto local = static_cast<std::size_t>(layout.local);
  const auto here = static_cast<std::size_t>(layout.tasks[static_cast<std::size_t>(layout.node)]);
  return layout.local_ranks.size() == here && layout.local_ranks[local] == layout.rank;
}

namespace {

void check_host(const SlurmFacts& facts, const StepLayout& layout) {
  const auto& claimed = layout.hosts[static_cast<std::size_t>(layout.node)];
  const std::string& own = facts.snapshot.host.name;
  const auto node_name = facts.variables.text("SLURMD_NODENAME");
  if (node_name && !same_host(node_name->value, claimed)) {
    throw Error(
        fmt::format(
            "SLURMD_NODENAME={} and SLURM_NODEID={} do not match: node {} of SLURM_STEP_NODELIST={} is {}",
            printable(node_name->value, 80), layout.node, layout.node, compress_hostlist(layout.hosts),
            claimed),
        k_leak_hint);
  }
  // NodeName and host name may differ, so a proof that the step is ours counts for more than the name.
  if (facts.ours || same_host(claimed, own)) return;
  if (find_host(layout.hosts, own)) {
    throw Error(
        fmt::format("SLURM_NODEID={} is {}, but this host is {}: the variables were copied from another node",
                    layout.node, claimed, own),
        "start ddprun on every node with srun: ssh passes on the variables of the first node");
  }
  throw Error(fmt::format("the variables of job {} are set ({}), but this host, {}, is not in "
                          "SLURM_STEP_NODELIST={}",
                          facts.job.id.value, name_leaked_variables(facts.variables), own,
                          compress_hostlist(layout.hosts)),
              k_leak_hint);
}

void check_ranks(const SlurmFacts& facts, const StepLayout& layout) {
  if (ranks_agree(layout)) return;
  throw Error(fmt::format("SLURM_PROCID={} and SLURM_LOCALID={} contradict SLURM_GTIDS={}", layout.rank,
                          layout.local, printable(facts.variables.text("SLURM_GTIDS")->value, 80)),
              k_leak_hint);
}

// Reports whether a batch script starts a step a node in a loop (srun -N1 -w HOST ... &), as guides for
// torchrun have it: the flags say what the step does not know.
bool is_one_of_a_loop(const SlurmFacts& facts, const StepLayout& layout) {
  const PlaceOptions& options = facts.options;
  if (layout.task_count != 1 || !options.address || !options.nodes || options.nodes->value < 2) return false;
  return options.node_rank || options.nodes->value <= static_cast<int>(facts.job.hosts.size());
}

// Returns a rank for a node of such a loop: torchrun's c10d rendezvous needs no --node-rank. If the loop's
// hosts are the job's and --rdzv-endpoint names one of them, a host's place in the job is its rank, counted
// from that host; else they are numbered as they come.
std::optional<Sourced<int>> find_rank_in_loop(const SlurmFacts& facts) {
  const int count = facts.options.nodes->value;
  const auto own = find_own_node(facts);
  if (!own || static_cast<int>(facts.job.hosts.size()) != count) return std::nullopt;
  const auto first = find_host(facts.job.hosts, facts.options.address->value);
  if (!first) return std::nullopt;
  return sourced((*own - *first + count) % count, facts.job.hosts_origin);
}

Allocation follow_loop(const SlurmFacts& facts) {
  PlaceOptions options = facts.options;
  if (!options.node_rank) options.node_rank = find_rank_in_loop(facts);
  return follow_flags(facts, options);
}

// In a heterogeneous job -N counts the nodes of one component.
std::string words_for_nodes(const SlurmFacts& facts, int nodes) {
  const int components = facts.job.components;
  return components > 1 ? fmt::format("--het-group=0-{}", components - 1) : fmt::format("-N{}", nodes);
}

void check_flags(const SlurmFacts& facts, const StepLayout& layout) {
  const PlaceOptions& options = facts.options;
  const std::size_t count = layout.hosts.size();
  if (options.nodes && static_cast<std::int64_t>(options.nodes->value) != static_cast<std::int64_t>(count)) {
    throw UsageError(fmt::format("{} {}, but srun started this step on {} ({})", options.nodes->origin,
                                 options.nodes->value, count_of(static_cast<std::int64_t>(count), "node"),
                                 compress_hostlist(layout.hosts)),
                     fmt::format("leave {} out, or start on as many nodes: srun {} ...",
                                 options.nodes->origin, words_for_nodes(facts, options.nodes->value)));
  }
  if (options.node_rank && options.node_rank->value != layout.node) {
    throw UsageError(
        fmt::format("{} {}, but {} is node {} of the step (SLURM_NODEID)", options.node_rank->origin,
                    options.node_rank->value, layout.hosts[static_cast<std::size_t>(layout.node)],
                    layout.node),
        fmt::format("leave {} out: in a step ddprun reads it from Slurm", options.node_rank->origin));
  }
  if (options.address && count > 1 && is_loopback_name(options.address->value)) {
    throw UsageError(
        fmt::format("{} {} is a different host on each of the step's {}", options.address->origin,
                    options.address->value, count_of(static_cast<std::int64_t>(count), "node")),
        fmt::format("leave {} out: ddprun uses {}, the step's first node", options.address->origin,
                    layout.hosts.front()));
  }
}

// Throws if --nproc-per-node asks for more: srun made the workers already, and more of them for each would
// start tasks x workers on a host.
void check_workers(const SlurmFacts& facts, const StepLayout& layout) {
  const auto& workers = facts.options.workers_per_node;
  const auto most = std::max_element(layout.tasks.begin(), layout.tasks.end());
  if (!workers || workers->value <= 1 || *most <= 1) return;
  const std::string& host = layout.hosts[static_cast<std::size_t>(most - layout.tasks.begin())];
  throw UsageError(
      fmt::format(
          "srun started {} ddprun processes on {}, but {} {} asks each of them for {} workers: {} in all",
          *most, host, workers->origin, workers->value, workers->value,
          static_cast<std::int64_t>(*most) * workers->value),
      fmt::format("start one ddprun per node (srun --ntasks-per-node=1 ...), or leave {} out to get one "
                  "worker per task",
                  workers->origin));
}

void add_step_notices(const SlurmFacts& facts, const StepLayout& layout, Allocation& allocation) {
  const std::size_t count = layout.hosts.size();
  const int job_nodes = facts.job.nodes.value;
  if (static_cast<std::int64_t>(count) < job_nodes && !facts.options.nodes) {
    allocation.notices.push_back(
        {fmt::format("the step has {} of the job's {} nodes ({})", count, job_nodes,
                     compress_hostlist(layout.hosts)),
         fmt::format("to use all of them: srun {} ...; if this is intended, add --nnodes {}",
                     words_for_nodes(facts, job_nodes), count)});
  }
  const auto [least, most] = std::minmax_element(layout.tasks.begin(), layout.tasks.end());
  if (*least != *most && facts.job.components == 1) {
    const auto name = [&](auto task) {
      return layout.hosts[static_cast<std::size_t>(task - layout.tasks.begin())];
    };
    allocation.notices.push_back({fmt::format("srun started {} ddprun processes on {}, but {} on {}", *most,
                                              name(most), *least, name(least)),
                                  "for the same number on every node: srun --ntasks-per-node=N ..."});
  }
}

std::vector<int> read_reserved_ports(const Sourced<std::string>& list) {
  std::vector<int> ports = expand_numbers(list.value, list.origin, 65535);
  std::sort(ports.begin(), ports.end());
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  return ports;
}

Allocation describe_step(const SlurmFacts& facts, const StepLayout& layout) {
  Allocation allocation = start_allocation(facts);
  const bool one_each = *std::max_element(layout.tasks.begin(), layout.tasks.end()) == 1;
  const std::string tasks = "SLURM_STEP_TASKS_PER_NODE";
  allocation.style = sourced(one_each ? LaunchStyle::agent_per_node : LaunchStyle::agent_per_task, tasks);
  if (one_each) allocation.asked_tasks = find_asked_tasks(facts);
  allocation.step_id = sourced(std::to_string(*find_normal_step(facts.variables)), "SLURM_STEP_ID");
  if (facts.options.run_id) allocation.instance = *facts.options.run_id;
  allocation.hosts.origin = "SLURM_STEP_NODELIST";
  for (std::size_t i = 0; i < layout.hosts.size(); ++i)
    allocation.hosts.value.push_back({layout.hosts[i], layout.tasks[i]});
  allocation.launcher = sourced(std::string("srun"), allocation.step_id.origin);
  allocation.node_index = {NodeIndex{layout.node}, "SLURM_NODEID"};
  if (one_each && layout.rank != layout.node)
    allocation.node_rank = sourced(NodeIndex{layout.rank}, "SLURM_PROCID");
  allocation.task_count = sourced(layout.task_count, tasks);
  allocation.task_rank = sourced(layout.rank, "SLURM_PROCID");
  allocation.task_local = sourced(LocalRank{layout.local}, "SLURM_LOCALID");
  for (const LaunchPlace& place : find_launch_places(facts.snapshot)) {
    if (place.slurm_step != facts.job.id.value + "." + allocation.step_id.value) continue;
    if (!place.secrets.empty()) allocation.secrets = place.secrets;
    if (place.key_value_space != KeyValueSpace::none)
      allocation.key_value_space = place.key_value_space;  // srun --mpi=pmi2 or pmix
  }
  if (const auto ports = facts.variables.text("SLURM_STEP_RESV_PORTS"))
    allocation.reserved_ports = sourced(read_reserved_ports(*ports), ports->origin);
  return allocation;
}

// Returns this task as a launch of its own, which is seldom meant if there are several.
Allocation stand_alone_in_step(const SlurmFacts& facts, const StepLayout& layout) {
  const std::string& host = layout.hosts[static_cast<std::size_t>(layout.node)];
  Allocation allocation = make_alone_in_job(facts, sourced(host, "SLURM_STEP_NODELIST"), "--standalone");
  allocation.step_id = sourced(std::to_string(*find_normal_step(facts.variables)), "SLURM_STEP_ID");
  if (layout.task_count > 1) {
    allocation.notices.push_back(
        {fmt::format("--standalone makes each of the step's {} ddprun processes a separate launch",
                     layout.task_count),
         "leave --standalone out to join them"});
  }
  return allocation;
}

// Reports whether this is srun --pty sh: its first task is a shell with the terminal. The others read
// /dev/null and have ended at once, so there is no step to join.
bool is_shell_of_pty(const SlurmFacts& facts, const StepLayout& layout) {
  const auto task = facts.variables.number("SLURM_TASK_PID", 1, k_most);
  if (!task || layout.task_count < 2 || layout.rank != 0 || !facts.variables.has("SLURM_PTY_PORT"))
    return false;
  const auto& above = facts.snapshot.host.ancestors;
  return std::any_of(above.begin(), above.end(), [&](const facts::Ancestor& ancestor) {
    return ancestor.pid == task->value && is_interactive_shell(ancestor);
  });
}

Allocation stand_alone_in_shell(const SlurmFacts& facts, const StepLayout& layout) {
  const PlaceOptions& options = facts.options;
  if (is_complete_manual(options) && !options.standalone) return follow_flags(facts, options);
  const std::size_t count = layout.hosts.size();
  const std::size_t wanted = options.standalone ? 1
                             : options.nodes    ? std::size_t(options.nodes->value)
                                                : count;
  if (wanted > 1) {
    throw UsageError(
        fmt::format("this is a shell that srun --pty started on {}; the other tasks of its step, on {}, have "
                    "ended",
                    layout.hosts.front(), compress_hostlist(layout.hosts)),
        fmt::format(
            "start ddprun on every node with: srun --overlap -N{0} -n{0} --ntasks-per-node=1 ddprun ...; "
            "to use {1} alone, add --nnodes 1",
            wanted, layout.hosts.front()));
  }
  Allocation allocation =
      make_alone_in_job(facts, sourced(layout.hosts.front(), "SLURM_STEP_NODELIST"), "shell of srun --pty");
  allocation.step_id = sourced(std::to_string(*find_normal_step(facts.variables)), "SLURM_STEP_ID");
  return allocation;
}

}  // namespace

Allocation parse_in_step(const SlurmFacts& facts) {
  const StepLayout layout = parse_step_layout(facts.variables);
  if (const auto foreign = find_foreign_place(facts, &layout)) return follow_foreign_place(facts, *foreign);
  check_ranks(facts, layout);
  check_host(facts, layout);
  if (is_shell_of_pty(facts, layout)) return stand_alone_in_shell(facts, layout);
  if (facts.options.standalone) return stand_alone_in_step(facts, layout);
  if (is_one_of_a_loop(facts, layout)) return follow_loop(facts);
  check_flags(facts, layout);
  check_workers(facts, layout);
  Allocation allocation = describe_step(facts, layout);
  check_not_over(facts, allocation);
  add_step_notices(facts, layout, allocation);
  return allocation;
}

namespace {

// Returns the CPUs of the job on each host, as sbatch and srun set them.
std::vector<int> granted_cpus_of_hosts(const facts::Snapshot& snapshot) {
  const auto text = Variables(snapshot.environment).text("SLURM_JOB_CPUS_PER_NODE");
  return text ? expand_counts(text->value, text->origin) : std::vector<int>();
}

}  // namespace

bool lacks_asked_tasks(const Allocation& allocation, const facts::Snapshot& snapshot) {
  if (allocation.scheduler.value != facts::Scheduler::slurm || allocation.launcher.value != "srun" ||
      allocation.style.value != LaunchStyle::agent_per_node || allocation.task_rank.value != 0 ||
      asks_for_several(allocation))
    return false;
  return std::ranges::any_of(granted_cpus_of_hosts(snapshot), [](int cpus) { return cpus > 1; });
}

std::optional<Sourced<std::vector<Host>>> parse_shown_tasks(const std::string& shown,
                                                            const Allocation& allocation,
                                                            const facts::Snapshot& snapshot) {
  const auto fields = read_slurm_job(shown, allocation.job_id.value);
  const auto number = [&](const char* name) {
    const auto field = fields.find(name);
    return field == fields.end()
               ? 0
               : parse_integer(field->second.substr(0, field->second.find(':'))).value_or(0);
  };
  const auto list = Variables(snapshot.environment).text("SLURM_JOB_NODELIST");
  const std::int64_t tasks = number("NumTasks");
  const std::int64_t each = number("NtasksPerN:B:S:C");
  std::vector<int> counts = granted_cpus_of_hosts(snapshot);
  if (!list || count_hostlist(list->value, list->origin) != counts.size() || tasks <= std::ssize(counts))
    return std::nullopt;
  const std::int64_t cpus = std::max<std::int64_t>(1, number("CPUs/Task"));
  const bool even = each > 0 && each * std::ssize(counts) == tasks;
  for (int& count : counts) count = static_cast<int>(even ? each : count / cpus);
  if (std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != tasks) return std::nullopt;
  std::vector<Host> hosts;
  for (std::string& host : expand_hostlist(list->value, list->origin))
    hosts.push_back({std::move(host), counts[hosts.size()]});
  return sourced(std::move(hosts), "scontrol show job");
}

}  // namespace ddprun::allocation
