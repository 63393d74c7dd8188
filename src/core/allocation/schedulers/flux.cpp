#include "allocation/schedulers/schedulers.hpp"

#include "allocation/manual.hpp"
#include "allocation/schedulers/job.hpp"
#include "allocation/variables.hpp"
#include "base/error.hpp"

namespace ddprun::allocation {

namespace {

Job read_job(const Variables& variables, const PlaceOptions& options) {
  Job job = make_no_job(options);
  const auto id = variables.text("FLUX_JOB_ID", "FLUX_ENCLOSING_ID");
  job.base.scheduler =
      sourced(facts::Scheduler::flux, variables.has("FLUX_TASK_RANK") ? "FLUX_TASK_RANK" : "FLUX_URI");
  if (id) job.base.job_id = *id;
  job.name = id ? "Flux job " + id->value : "a Flux instance";
  return job;
}

// Adds hosts without names: the names are Flux' own business, it starts the processes by number.
void add_unnamed_hosts(const Sourced<int>& nodes, Job& job) {
  job.hosts = sourced(std::vector<std::string>(static_cast<std::size_t>(nodes.value)), nodes.origin);
}

}  // namespace

bool has_flux_job(const facts::Snapshot& snapshot) {
  const Variables variables(snapshot.environment);
  return variables.has("FLUX_TASK_RANK") || variables.has("FLUX_URI");
}

Allocation parse_flux(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  const Variables variables(snapshot.environment);
  Job job = read_job(variables, options);
  const bool manual = is_complete_manual(options);
  const auto places = find_launch_places(snapshot);
  if (!options.standalone && !manual && !places.empty())
    return follow_launcher(job, places.front(), snapshot, options);
  if (!options.standalone && !manual && !options.nodes) {
    throw Error(
        "ddprun was started in a Flux instance, outside any task of it, where the instance's hosts are "
        "unknown",
        "give the number of nodes, as in --nnodes $(flux getattr size); or start it with flux run -N NODES "
        "-n NODES --exclusive ddprun ...");
  }
  if (options.nodes) add_unnamed_hosts(*options.nodes, job);
  return settle_unstarted(job, "the initial program of a Flux instance", snapshot, options);
}

}  // namespace ddprun::allocation
