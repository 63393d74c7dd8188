#include "allocation/schedulers/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "allocation/hostlist.hpp"
#include "allocation/manual.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

// Adds the job's fields to an allocation that did not come from it.
void add_job(const Job& job, Allocation& allocation) {
  allocation.job_id = job.base.job_id;
  allocation.restart_count = job.base.restart_count;
  allocation.job_nodes = job.base.job_nodes;
  allocation.end_time = job.base.end_time;
  allocation.cpus_on_node = job.base.cpus_on_node;
  allocation.asked_tasks = job.base.asked_tasks;
  allocation.secrets = job.base.secrets;
}

int count_hosts(const Job& job) { return static_cast<int>(job.hosts.value.size()); }

void check_nodes_available(const Job& job, const PlaceOptions& options) {
  if (!options.nodes || options.nodes->value <= count_hosts(job)) return;
  throw UsageError(
      fmt::format("{} {}, but {} has {} ({})", options.nodes->origin, options.nodes->value, job.name,
                  count_of(count_hosts(job), "host"), compress_hostlist(job.hosts.value)),
      fmt::format("request {} hosts for the job, or add --node-rank and --master-addr to join hosts manually",
                  options.nodes->value));
}

// The script of a job runs on its first host. Elsewhere, and where it is not above this process, this is one
// of several that something unknown has started: each of them would start all agents.
void check_runs_script(const Job& job, const facts::Snapshot& snapshot) {
  const bool elsewhere = job.script_on_first && job.own && *job.own > 0;
  if (job.below_script.value_or(!elsewhere)) return;
  const std::string& first = job.hosts.value.front();
  const std::string where =
      elsewhere
          ? fmt::format("its script runs on {}, but this ddprun was started on {}", first, snapshot.host.name)
          : fmt::format("this ddprun on {} was not started by its script", snapshot.host.name);
  throw Error(
      fmt::format("{} has {} ({}): {}, and no variable gives its rank", job.name,
                  count_of(count_hosts(job), "host"), compress_hostlist(job.hosts.value), where),
      fmt::format("call ddprun once in the job's script, without mpiexec or ssh; or start one on each "
                  "host and give its place: --nnodes {} --node-rank {} --master-addr {}; to use this "
                  "host alone, add --standalone",
                  count_hosts(job), job.own ? fmt::format("{}", *job.own) : "R", first));
}

Allocation describe_unstarted(const Job& job, const std::string& origin, const PlaceOptions& options) {
  Allocation allocation = job.base;
  allocation.style = sourced(LaunchStyle::not_started, origin);
  if (options.run_id) allocation.instance = *options.run_id;
  allocation.hosts.origin = job.hosts.origin;
  for (const std::string& host : job.hosts.value) allocation.hosts.value.push_back({host, 1});
  if (job.own) allocation.node_index = {NodeIndex{*job.own}, "host name"};
  allocation.task_count = sourced(count_hosts(job), job.hosts.origin);
  return allocation;
}

}  // namespace

Job make_no_job(const PlaceOptions& options) {
  Job job;
  job.base.scheduler = sourced(facts::Scheduler::none, "no scheduler detected");
  job.base.restart_count = by_default(0);
  apply_coordinator_flags(options, job.base);
  return job;
}

Allocation stand_alone(const Job& job, const facts::Snapshot& snapshot, const PlaceOptions& options,
                       const std::string& origin) {
  Allocation allocation = make_alone(snapshot, options, origin);
  if (job.name.empty()) return allocation;
  allocation.scheduler = job.base.scheduler;
  add_job(job, allocation);
  if (job.own) {
    allocation.hosts = sourced(std::vector<Host>{{job.hosts.value[static_cast<std::size_t>(*job.own)], 1}},
                               job.hosts.origin);
  }
  return allocation;
}

Allocation settle_unstarted(const Job& job, const std::string& origin, const facts::Snapshot& snapshot,
                            const PlaceOptions& options) {
  if (options.standalone) return stand_alone(job, snapshot, options, "--standalone");
  if (is_complete_manual(options)) {
    Allocation manual = parse_manual(snapshot, options);
    add_job(job, manual);
    manual.secrets.clear();  // a host that was joined by hand need not be the job's
    return manual;
  }
  if (options.nodes && options.nodes->value == 1)
    return stand_alone(job, snapshot, options, options.nodes->origin);
  if (!job.hosts.known()) {
    throw Error(fmt::format("ddprun was started in {}, but nothing on {} shows which hosts it has", job.name,
                            snapshot.host.name),
                "start one ddprun on each host with the scheduler's launcher; to use this host alone, add "
                "--nnodes 1");
  }
  check_nodes_available(job, options);
  if (job.own && count_hosts(job) == 1) return stand_alone(job, snapshot, options, job.hosts.origin);
  check_runs_script(job, snapshot);
  return describe_unstarted(job, origin, options);
}

// Allocation of a launcher's processes, from its variables and the job around it.

namespace {

struct Launch {
  const Job& job;
  const LaunchPlace& place;
  const PlaceOptions& options;
  Sourced<int> size;
  std::optional<Sourced<int>> most_nodes;  // no more hosts than these take part
};

std::string command_for(const LaunchPlace& place, int hosts) {
  return fmt::format(fmt::runtime(place.one_a_node), hosts) + " ddprun ...";
}

// Returns the size. A launcher without one leaves it to --nnodes, which then says that there is one ddprun on
// each.
Sourced<int> find_size(const LaunchPlace& place, const PlaceOptions& options) {
  if (place.size) return *place.size;
  if (options.nodes) {
    if (place.rank.value < options.nodes->value) return *options.nodes;
    throw UsageError(
        fmt::format("{} {}, but {}", options.nodes->origin, options.nodes->value, describe(place)),
        "start one ddprun on each node: " + command_for(place, options.nodes->value));
  }
  throw Error(fmt::format("{} is set, but no variable gives the number of processes that {} started",
                          describe(place), place.launcher),
              "start one ddprun on each node and give their number with --nnodes N");
}

std::optional<Sourced<int>> find_most_nodes(const Job& job, const LaunchPlace& place) {
  std::optional<Sourced<int>> most = place.nodes;
  const auto lower = [&](const Sourced<std::vector<std::string>>& hosts) {
    const auto count = static_cast<int>(hosts.value.size());
    if (hosts.known() && (!most || count < most->value)) most = sourced(count, hosts.origin);
  };
  if (!place.nodes_exact) lower(place.hosts);
  if (!place.nodes_exact) lower(job.hosts);
  return most;
}

// Returns the likely number of nodes, at least one: variables of a heterogeneous step may count 0 of what
// there is.
int likely_nodes(const Launch& launch) {
  if (launch.most_nodes) return std::max(1, std::min(launch.most_nodes->value, launch.size.value));
  const int here = std::max(1, launch.place.local_size ? launch.place.local_size->value : 1);
  return (launch.size.value + here - 1) / here;
}

[[noreturn]] void refuse_single(const Launch& launch) {
  const auto hosts = static_cast<int>(launch.job.hosts.value.size());
  throw Error(fmt::format("{} started this ddprun as the only process of its launch ({}), but {} has {} ({})",
                          launch.place.launcher, describe(launch.place), launch.job.name,
                          count_of(hosts, "host"), compress_hostlist(launch.job.hosts.value)),
              fmt::format("start one on each host: {}; to use this host alone, add --nnodes 1",
                          command_for(launch.place, hosts)));
}

void settle_style(const Launch& launch, Allocation& allocation) {
  const auto& local = launch.place.local_size;
  const auto& most = launch.most_nodes;
  const auto& size = launch.size;
  allocation.style = sourced(LaunchStyle::agent_per_task, local ? local->origin : size.origin);
  if (local && local->value > 1) return;
  if (most && size.value > most->value) {
    allocation.style.origin = fmt::format("{} and {}", size.origin, most->origin);
    return;
  }
  const bool told_by_flag =
      !launch.place.size || (launch.options.nodes && launch.options.nodes->value == size.value);
  if (!local && !told_by_flag && !(most && most->value == size.value)) {
    throw Error(fmt::format("{} does not give the number of processes on this host", describe(launch.place)),
                fmt::format("if there is one ddprun on each host, add --nnodes {}", size.value));
  }
  if (const auto& rank = launch.place.local_rank; rank && rank->value > 0) {
    throw Error(
        fmt::format(
            "{} is {}: {} started several ddprun processes on this host, and no variable gives their number",
            rank->origin, rank->value, launch.place.launcher),
        "start one ddprun per node: " + command_for(launch.place, likely_nodes(launch)));
  }
  allocation.style.value = LaunchStyle::agent_per_node;
  // Two processes of which one is here are on two hosts; of more, some might share another host.
  const bool told = launch.place.nodes_exact && most->value == size.value;
  const bool certain = told || (local && size.value == 2);
  allocation.style_assumed = !certain;
}

void check_flags(const Launch& launch, const Allocation& allocation) {
  const auto& nodes = launch.options.nodes;
  const auto& workers = launch.options.workers_per_node;
  const bool per_task = allocation.style.value == LaunchStyle::agent_per_task;
  if (nodes && !per_task && nodes->value != launch.size.value) {
    throw UsageError(
        fmt::format("{} {}, but {} started ddprun on {} ({})", nodes->origin, nodes->value,
                    launch.place.launcher, count_of(launch.size.value, "node"), launch.size.origin),
        fmt::format("leave {} out, or start on as many nodes: {}", nodes->origin,
                    command_for(launch.place, nodes->value)));
  }
  if (workers && workers->value > 1 && per_task) {
    throw UsageError(fmt::format("{} started {} ddprun processes, but {} {} asks each of them for {} workers",
                                 launch.place.launcher, launch.size.value, workers->origin, workers->value,
                                 workers->value),
                     fmt::format("start one ddprun per node ({}), or leave {} out to get one worker per task",
                                 command_for(launch.place, likely_nodes(launch)), workers->origin));
  }
  const auto& address = launch.options.address;
  if (address && is_loopback_name(address->value) && !per_task) {
    throw UsageError(fmt::format("{} {} is a different host on each of the {}", address->origin,
                                 address->value, count_of(launch.size.value, "node")),
                     fmt::format("leave {} out: ddprun finds the first node", address->origin));
  }
}

// Names only where they are all there: the launch may be on a part of the job.
void settle_hosts(const Launch& launch, const facts::Snapshot& snapshot, Allocation& allocation) {
  const bool per_node = allocation.style.value == LaunchStyle::agent_per_node;
  const int count = per_node                   ? launch.size.value
                    : launch.place.nodes_exact ? launch.place.nodes->value
                    : launch.place.local_size && launch.place.local_size->value == launch.size.value ? 1
                                                                                                     : 0;
  const Host unnamed{"", per_node ? 1 : 0};
  allocation.hosts.value.assign(static_cast<std::size_t>(count), unnamed);
  allocation.hosts.origin = count == 0 ? "" : allocation.style.origin;
  for (const auto* list : {&launch.place.hosts, &launch.job.hosts}) {
    if (count == 0 || !list->known() || list->value.size() != allocation.hosts.value.size()) continue;
    for (std::size_t i = 0; i < list->value.size(); ++i) allocation.hosts.value[i].name = list->value[i];
    allocation.hosts.origin = list->origin;
    break;
  }
  if (count == 1) allocation.hosts.value.front() = {snapshot.host.name, launch.size.value};
}

// Settles where to look: the first of a list is the likeliest place of rank 0, then the host where the
// launcher was called.
void settle_hints(const Launch& launch, Allocation& allocation) {
  if (allocation.hosts.value.size() == 1) {
    allocation.first_hints = {sourced(std::string("127.0.0.1"), "all processes are on this host")};
    return;
  }
  const auto& told = !launch.place.hosts.known() ? launch.job.hosts : launch.place.hosts;
  const auto add = [&](const std::string& name, const std::string& origin) {
    const auto& hints = allocation.first_hints;
    const bool known =
        std::any_of(hints.begin(), hints.end(), [&](const auto& hint) { return hint.value == name; });
    if (!known) allocation.first_hints.push_back(sourced(name, origin));
  };
  if (!told.value.empty() && !told.value.front().empty())
    add(told.value.front(), told.origin + ", first host");
  for (const auto& front_end : launch.place.front_end) add(front_end.value, front_end.origin);
  for (const std::string& host : told.value) {
    if (!host.empty()) add(host, told.origin);
  }
}

// Reports whether members can find the coordinator by what all of them know. Open MPI names all hosts to all
// processes except those beside mpirun, and mpirun's own address to all: only if rank 0 is not beside mpirun
// are there processes that do not know its host.
bool is_first_known(const Launch& launch, int agents_host_count) {
  if (agents_host_count == 1 || launch.job.hosts_in_environment) return true;
  const bool told = launch.place.hosts.known();
  return launch.place.launcher_tells_hosts && told == (launch.place.rank.value != 0);
}

void settle_place(const Launch& launch, Allocation& allocation) {
  const LaunchPlace& place = launch.place;
  const bool per_task = allocation.style.value == LaunchStyle::agent_per_task;
  if (per_task && !place.local_rank) {
    throw Error(fmt::format("{} does not give the local rank of this process", describe(place)),
                "start one ddprun per node: " + command_for(place, likely_nodes(launch)));
  }
  const std::size_t hosts = allocation.hosts.value.size();
  if (place.node && hosts > 0 && std::cmp_greater_equal(place.node->value, hosts)) {
    throw Error(
        fmt::format("{}={}, but according to {} the launch is on {}", place.node->origin, place.node->value,
                    allocation.style.origin, count_of(static_cast<std::int64_t>(hosts), "host")),
        "the variables come from different launches or were edited; start ddprun from a fresh shell");
  }
  allocation.node_index = {std::nullopt, "order of the lowest ranks"};
  if (place.node) allocation.node_index = {NodeIndex{place.node->value}, place.node->origin};
  allocation.task_count = launch.size;
  allocation.task_rank = place.rank;
  allocation.task_local = place.local_rank
                              ? sourced(LocalRank{place.local_rank->value}, place.local_rank->origin)
                              : sourced(LocalRank{0}, allocation.style.origin);
  if (place.local_size) {
    allocation.tasks_here = *place.local_size;
  } else if (!per_task) {
    allocation.tasks_here = sourced(1, allocation.style.origin);
  } else {
    const int nodes = likely_nodes(launch);
    allocation.tasks_here = sourced((launch.size.value + nodes - 1) / nodes, allocation.style.origin);
  }
}

}  // namespace

Allocation follow_launcher(const Job& job, const LaunchPlace& place, const facts::Snapshot& snapshot,
                           const PlaceOptions& options) {
  check_not_left_over(place, snapshot.host);
  const Launch launch{job, place, options, find_size(place, options), find_most_nodes(job, place)};
  if (launch.size.value == 1) {
    const bool meant = options.nodes && options.nodes->value == 1;
    if (job.hosts.value.size() > 1 && !meant) refuse_single(launch);
    Allocation alone = stand_alone(job, snapshot, options, launch.size.origin);
    if (!job.name.empty() && !job.hosts.known() && !meant && !place.nodes_exact) {
      alone.notices.push_back(
          {fmt::format("{} started this ddprun as the only process of its launch, and nothing on "
                       "{} shows whether {} has more hosts",
                       place.launcher, snapshot.host.name, job.name),
           "to use all of them, start one on each: " + command_for(place, 2)});
    }
    return alone;
  }
  Allocation allocation = job.base;
  allocation.launcher = sourced(place.launcher, place.rank.origin);
  allocation.launch_id = place.id;
  allocation.numbered_by_launcher = true;
  if (options.run_id) allocation.instance = *options.run_id;
  settle_style(launch, allocation);
  check_flags(launch, allocation);
  settle_hosts(launch, snapshot, allocation);
  settle_place(launch, allocation);
  settle_hints(launch, allocation);
  allocation.first_known = is_first_known(launch, static_cast<int>(allocation.hosts.value.size()));
  // The launcher's own come first: over ssh its other hosts do not have the job's.
  allocation.secrets = place.secrets;
  allocation.secrets.insert(allocation.secrets.end(), job.base.secrets.begin(), job.base.secrets.end());
  allocation.key_value_space = place.key_value_space;
  return allocation;
}

}  // namespace ddprun::allocation
