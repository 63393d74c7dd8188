// Layout of srun's tasks: the part of the environment that is the step's and not the job's.
#pragma once

#include <string>
#include <vector>

#include "allocation/variables.hpp"

namespace ddprun::allocation {

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

}  // namespace ddprun::allocation
