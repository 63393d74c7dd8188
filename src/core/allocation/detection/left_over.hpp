// Variables that a worker passed on to the next job it submitted.
//
// A training that goes on past its time limit submits its own successor (sbatch next.sh, qsub -V next.sh).
// That job starts with the worker's whole environment: the rank, MASTER_PORT and thread count that ddprun
// gave it, and in a task of mpiexec the launcher's rank. Followed, they would make the new job a worker of a
// launch that is over.
//
// ddprun therefore leaves a list in its workers' environment: the job, and the names of the variables it set.
// In another job these are not the user's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "facts/snapshot.hpp"

namespace ddprun::allocation {

inline constexpr const char* k_worker_list_variable = "DDPRUN_WORKER_VARIABLES";

// Returns the value of that list. `names`: the variables ddprun set; the scheduler's own are left out.
std::string make_worker_list(const facts::Environment& environment, const std::vector<std::string>& names);

// Reports whether a name is of one process of PMI, PMIx or an MPI launcher; a user's tuning (OMPI_MCA_,
// PMIX_MCA_) is not.
bool is_launcher_variable(std::string_view name);

// Returns the environment without what the ddprun above has set for this worker, by its list. What it has
// removed stays away.
facts::Environment without_worker_variables(const facts::Environment& environment);

// Returns the names to take out of the environment because a worker of another job left them: those of its
// list, and, if the scheduler itself started this process and not an MPI launcher, the launchers'. Empty if
// there is no list, in the same job, outside any job, and below a ddprun process (its workers may well start
// another ddprun).
std::vector<std::string> find_left_over(const facts::Snapshot& snapshot);

// Reports whether a worker of another ddprun started this one, in the same job: then the outer launch's
// place, which it inherited, is not its own.
bool is_inside_worker(const facts::Snapshot& snapshot);

// Returns the jobs whose variables are set, "slurm/41", of several schedulers with commas between; empty
// outside any.
std::string name_jobs(const facts::Environment& environment);

// Returns the job of the worker that left them, for messages: "slurm/41"; "no job" if it ran outside of any.
std::string describe_left_over(const facts::Snapshot& snapshot);

}  // namespace ddprun::allocation
