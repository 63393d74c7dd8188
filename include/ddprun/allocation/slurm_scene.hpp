// What the parts of the Slurm detector look at, read once, and what they have in common.
#pragma once

#include <optional>
#include <string>

#include "ddprun/allocation/detect.hpp"
#include "ddprun/allocation/job.hpp"
#include "ddprun/allocation/slurm_context.hpp"
#include "ddprun/allocation/slurm_step.hpp"

namespace ddprun {

struct SlurmScene {
  const Snapshot& snapshot;
  const PlaceOptions& options;
  Variables variables;
  SlurmJob job;
  SlurmContext context = SlurmContext::shell;
  std::string context_origin;  // what told the context
  bool ours = false;           // something not inherited says so
};

// Throws Error for malformed variables and those of another job or step.
SlurmScene read_slurm_scene(const Snapshot& snapshot, const PlaceOptions& options);

// The fields that are the job's and those that flags may set in any launch.
Allocation start_allocation(const SlurmScene& scene);

// This process alone on `host`, with what the job says of it; `origin` tells why alone.
Allocation make_alone_in_job(const SlurmScene& scene, const Sourced<std::string>& host,
                             const std::string& origin);

// The launch by hand that `options` describe, with what the job adds.
Allocation follow_flags(const SlurmScene& scene, const PlaceOptions& options);

// Throws Error when the job's end time has passed and nothing proves that its variables are ours.
void check_not_over(const SlurmScene& scene, const Allocation& allocation);

// Throws Error when this host is none of the job's and nothing else shows that the job is ours.
void check_on_job_host(const SlurmScene& scene);

// This host among the job's: by its own name, else by slurmd's name for it, which is inherited by ssh.
std::optional<int> find_own_node(const SlurmScene& scene);

// An MPI launcher's place that Slurm's variables do not account for; `layout` is null outside a step. Ranks
// that srun's PMI plug-ins set for another step are leftovers and say nothing.
std::optional<LaunchPlace> find_foreign_place(const SlurmScene& scene, const StepLayout* layout);

// The launch of mpiexec or mpirun inside the job, or what the flags say of it.
Allocation follow_foreign_place(const SlurmScene& scene, const LaunchPlace& place);

}  // namespace ddprun
