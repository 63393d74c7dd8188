// The ranks that MPI launchers and PMI servers leave in the environment. A rank that disagrees with Slurm's
// means that mpiexec started this process inside a batch job, where SLURM_PROCID is the launcher's daemon's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/allocation/variables.hpp"

namespace ddprun {

struct MpiPlace {
  Sourced<std::int64_t> rank;                 // origin: the variable, e.g. OMPI_COMM_WORLD_RANK
  std::optional<Sourced<std::int64_t>> size;  // PMIX_RANK has none
  std::string slurm_step;                     // "29.0" when srun's own PMI plug-in set it; else empty
};

// One entry for each rank variable that is set. Throws Error naming a malformed one.
std::vector<MpiPlace> find_mpi_places(const Variables& variables);

// "OMPI_COMM_WORLD_RANK=2 (of 4)".
std::string describe(const MpiPlace& place);

}  // namespace ddprun
