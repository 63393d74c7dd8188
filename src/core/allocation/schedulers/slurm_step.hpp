// Layout of srun's tasks and this process among them: the part of the environment that is the step's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/variables.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

struct SlurmFacts;

struct StepLayout {
  std::vector<std::string> hosts;  // SLURM_STEP_NODELIST
  std::vector<int> tasks;          // number on each of them
  int task_count = 0;
  int node = 0;   // SLURM_NODEID: position in `hosts`, also for -m arbitrary
  int rank = 0;   // SLURM_PROCID: never computed, since cyclic and arbitrary layouts do not follow the nodes
  int local = 0;  // SLURM_LOCALID
  std::vector<int> local_ranks;  // SLURM_GTIDS: the ranks on this host, by local number; may be unset
};

// Throws Error naming the variable that is missing, malformed or at odds with another. SLURM_GTIDS is read
// but not compared with the rank: MPI launchers leave it behind (see ranks_agree).
StepLayout parse_step_layout(const Variables& variables);

// Reports whether SLURM_GTIDS, if set, says the same as SLURM_PROCID and SLURM_LOCALID.
bool ranks_agree(const StepLayout& layout);

// Tasks that a Slurm job's script asked for, as `scontrol show job` shows them in a step that has its own.

// Reports whether this is the first agent of a step of one task a node whose job may have asked for more: the
// job has a host with several CPUs, and no variable shows how many tasks.
bool lacks_asked_tasks(const Allocation& allocation, const facts::Snapshot& snapshot);
// Reads what `scontrol show job` printed. The layout of an uneven number follows from the CPUs that each host
// was granted; nullopt where these are not as many as the tasks need, and for one task a host.
std::optional<Sourced<std::vector<Host>>> parse_shown_tasks(const std::string& shown,
                                                            const Allocation& allocation,
                                                            const facts::Snapshot& snapshot);

// A launch inside a step of srun: one agent a node or a task, as srun started them.

// Throws Error when the step's variables contradict each other, this host or an MPI launcher's, and
// UsageError when flags contradict the step.
Allocation parse_in_step(const SlurmFacts& facts);

}  // namespace ddprun::allocation
