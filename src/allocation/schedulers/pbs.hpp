// Where we are according to OpenPBS, PBS Pro and Torque, which tell a job and a file with its hosts. Ranks
// are an MPI launcher's business, but for pbsdsh and pbs_tmrsh, whose tasks have PBS_NODENUM of their own;
// under any other launcher that is the first host's, carried over.
#pragma once

#include "allocation/allocation.hpp"
#include "allocation/place_options.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// A job id is set.
bool has_pbs_job(const facts::Snapshot& snapshot);

// NEC's NQSV sets PBS_JOBID=0:390879.nqsv and PBS_NODEFILE, but has neither PBS' programs nor its tasks: its
// jobs are none of PBS.
bool is_nqsv_job(const facts::Snapshot& snapshot);

// Throws Error for the variables of another job, a node file that is none, and tasks that cannot be told
// apart.
Allocation parse_pbs(const facts::Snapshot& snapshot, const PlaceOptions& options);

// Whether a process of PBS is among the ancestors, or the cgroup is one of its hook's.
bool is_under_pbs(const facts::HostFacts& host);

}  // namespace ddprun::allocation
