// Facts that the parts of the Slurm detector share, read once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/manual.hpp"
#include "allocation/schedulers/job.hpp"
#include "allocation/schedulers/slurm_place.hpp"
#include "allocation/schedulers/slurm_step.hpp"
#include "allocation/variables.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// Context of Slurm that the variables describe, and whether they are this process' own.
//
// Everything srun and sbatch set is inherited: by an sbatch from inside a step, by tmux and ssh from a job's
// shell, by the ranks of mpiexec. What the kernel shows (ancestors, cgroup) decides where it shows anything;
// else the variables must fit each other and this host. Finding no slurmstepd proves nothing, since
// containers hide it; a host that is not in the node list does.
struct SlurmJob {
  Sourced<std::string> id;
  std::vector<std::string> hosts;  // hosts of the whole job, all components of a heterogeneous one
  std::string hosts_origin;        // SLURM_JOB_NODELIST
  int components = 1;              // SLURM_HET_SIZE
  Sourced<int> nodes;              // 0 when unknown
};

SlurmJob parse_slurm_job(const Variables& variables);

// Returns the number of a normal step; nullopt for the special ones (batch -5, interactive -6, ... or the
// same as unsigned 32-bit numbers) and if none is set.
std::optional<std::int64_t> find_normal_step(const Variables& variables);

// Throws Error when the variables belong to another job or step than the one this process runs in.
SlurmContext decide_context(const Variables& variables, const SlurmJob& job,
                            const std::optional<SlurmPlace>& place);

// Reports whether something not inherited proves that the job's variables are ours: the ancestors, the
// cgroup, or SLURM_TASK_PID being this process or an ancestor.
bool is_proven_ours(const Variables& variables, const facts::HostFacts& host,
                    const std::optional<SlurmPlace>& place);

// Returns the SLURM_ variables that say most among those set, for messages: "SLURM_JOB_ID, SLURM_PROCID".
std::string name_leaked_variables(const Variables& variables);

inline constexpr const char* k_leak_hint =
    "if the variables are left from an earlier job, clear them with `unset ${!SLURM_@}`; to use this host "
    "alone, add "
    "--standalone";

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
