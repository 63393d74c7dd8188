// What the parts of the Slurm detector look at, read once, and what they have in common.
#pragma once

#include <optional>
#include <string>

#include "ddprun/allocation/detect.hpp"
#include "ddprun/allocation/mpi_launcher.hpp"
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

// The launch by hand that the flags describe, with what the job adds.
Allocation follow_flags(const SlurmScene& scene);

// Throws Error when the job's end time has passed and nothing proves that its variables are ours.
void check_not_over(const SlurmScene& scene, const Allocation& allocation);

// An MPI launcher's rank that Slurm's variables do not account for; `layout` is null outside a step. Ranks
// that srun's PMI plug-ins set for another step are leftovers and say nothing.
std::optional<MpiPlace> find_foreign_rank(const SlurmScene& scene, const StepLayout* layout);
[[noreturn]] void refuse_mpi(const SlurmScene& scene, const MpiPlace& place, const StepLayout* layout);

}  // namespace ddprun
