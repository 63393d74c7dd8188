// Context of Slurm that the variables describe, and whether they are this process' own.
//
// Everything srun and sbatch set is inherited: by an sbatch from inside a step, by tmux and ssh from a job's
// shell, by the ranks of mpiexec. What the kernel shows (ancestors, cgroup) decides where it shows anything;
// else the variables must fit each other and this host. Finding no slurmstepd proves nothing, since
// containers hide it; a host that is not in the node list does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocation/schedulers/slurm_place.hpp"
#include "allocation/variables.hpp"

namespace ddprun::allocation {

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

}  // namespace ddprun::allocation
