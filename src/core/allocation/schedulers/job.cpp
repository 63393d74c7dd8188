#include "allocation/schedulers/job.hpp"

#include <fmt/format.h>

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

}  // namespace ddprun::allocation
