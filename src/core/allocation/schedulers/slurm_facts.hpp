// Facts that the parts of the Slurm detector share, read once.
#pragma once

#include <optional>
#include <string>

#include "allocation/allocation.hpp"
#include "allocation/place_options.hpp"
#include "allocation/schedulers/job.hpp"
#include "allocation/schedulers/slurm_context.hpp"
#include "allocation/schedulers/slurm_step.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

struct SlurmFacts {
  const facts::Snapshot& snapshot;
  const PlaceOptions& options;
  Variables variables;
  SlurmJob job;
  SlurmContext context = SlurmContext::shell;
  std::string context_origin;  // evidence for the context
  bool ours = false;           // proven by something not inherited
};

// Throws Error for malformed variables and those of another job or step.
SlurmFacts read_slurm_facts(const facts::Snapshot& snapshot, const PlaceOptions& options);

// Returns the tasks that the job's script asked for on each host. Slurm sets SLURM_NTASKS or
// SLURM_NTASKS_PER_NODE only then; SLURM_TASKS_PER_NODE without them is what would fit. In a step of srun all
// of them are the step's, except SLURM_NTASKS_PER_NODE where the step does not give its own.
std::optional<Sourced<std::vector<Host>>> find_asked_tasks(const SlurmFacts& facts);

// Returns the fields that are the job's and those that flags may set in any launch.
Allocation start_allocation(const SlurmFacts& facts);

// Returns this process alone on `host`, with what the job says of it; `origin` says why alone.
Allocation make_alone_in_job(const SlurmFacts& facts, const Sourced<std::string>& host,
                             const std::string& origin);

// Returns the launch by hand that `options` describe, with what the job adds.
Allocation follow_flags(const SlurmFacts& facts, const PlaceOptions& options);

// Throws Error when the job's end time has passed and nothing proves that its variables are ours.
void check_not_over(const SlurmFacts& facts, const Allocation& allocation);

// Throws Error when this host is none of the job's and nothing else shows that the job is ours.
void check_on_job_host(const SlurmFacts& facts);

// Returns this host's position among the job's: by its own name, else by slurmd's name for it, which is
// inherited by ssh.
std::optional<int> find_own_node(const SlurmFacts& facts);

// Returns an MPI launcher's place that Slurm's variables do not account for; `layout` is null outside a step.
// Ranks that srun's PMI plug-ins set for another step are leftovers and say nothing.
std::optional<LaunchPlace> find_foreign_place(const SlurmFacts& facts, const StepLayout* layout);

// Returns the launch of mpiexec or mpirun inside the job, or what the flags say of it.
Allocation follow_foreign_place(const SlurmFacts& facts, const LaunchPlace& place);

}  // namespace ddprun::allocation
