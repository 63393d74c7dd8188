// Detectors of the schedulers: whether the variables of their jobs are set, and what follows from them.
// They are rows of the table in allocation/detection/detect.cpp.
#pragma once

#include "allocation/allocation.hpp"
#include "allocation/manual.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// Reports whether this is a task of flux run, or the initial program of an instance (flux alloc, flux batch),
// whose hosts no variable names. Parsing throws Error for one that does not say how many nodes to use.
bool has_flux_job(const facts::Snapshot& snapshot);
Allocation parse_flux(const facts::Snapshot& snapshot, const PlaceOptions& options);

// Detects Slurm: inside a step of srun, in a batch script, in a shell of salloc.
// A step of several hosts or tasks: one agent a node or a task, as srun started them. Without a step: alone
// if the job has one node or one was asked for, else not_started with all that is known. The flags of a
// launch by hand are followed if they are complete and no step says otherwise; inside a step they must agree
// with it.
// Throws Error when the variables are another job's, another host's, or contradict each other, and UsageError
// when flags contradict them.
bool has_slurm_job(const facts::Snapshot& snapshot);
Allocation parse_slurm(const facts::Snapshot& snapshot, const PlaceOptions& options);

// Detects OpenPBS, PBS Pro and Torque, which name a job and a file with its hosts. Ranks are an MPI
// launcher's business, except for pbsdsh and pbs_tmrsh, whose tasks have PBS_NODENUM of their own; under any
// other launcher that is the first host's, carried over. Throws Error for the variables of another job, a
// node file that is none, and tasks that cannot be told apart.
bool has_pbs_job(const facts::Snapshot& snapshot);
Allocation parse_pbs(const facts::Snapshot& snapshot, const PlaceOptions& options);
// Reports whether a process of PBS is among the ancestors, or the cgroup is one of its hook's.
bool is_under_pbs(const facts::HostFacts& host);
// Reports whether the job is NEC's NQSV's, which sets PBS_JOBID=0:390879.nqsv and PBS_NODEFILE, but has
// neither PBS' programs nor its tasks: its jobs are none of PBS.
bool is_nqsv_job(const facts::Snapshot& snapshot);

// Detects LSF, which names a job and its hosts. Ranks are the business of jsrun or an MPI launcher. Throws
// Error for malformed lists of hosts and the variables of another job.
bool has_lsf_job(const facts::Snapshot& snapshot);
Allocation parse_lsf(const facts::Snapshot& snapshot, const PlaceOptions& options);

// Schedulers whose batch script finds the hosts of its job in a file and starts the others by a program of
// the scheduler's. No variable tells the place of a process that they start.
//
//   Grid Engine   PE_HOSTFILE, "host slots queue range" a line, on the first host of a parallel job only; a
//                 host has a line for each of its queues (submit(1), sge_pe(5))
//   OAR           OAR_NODEFILE, a line for each core, sorted as text; on any host of the job
//                 (oar-team/oar, docs/source/user/mechanisms.rst)
//   PJM           PJM_O_NODEINF, a host a line (the guides of the centres that have Fujitsu's PJM)
//
// As with LSF: launched by an MPI launcher, by flags, alone, or not started yet. Throws Error where the file
// cannot be read or does not have this host.
bool has_sge_job(const facts::Snapshot& snapshot);
bool has_oar_job(const facts::Snapshot& snapshot);
bool has_pjm_job(const facts::Snapshot& snapshot);
Allocation parse_sge(const facts::Snapshot& snapshot, const PlaceOptions& options);
Allocation parse_oar(const facts::Snapshot& snapshot, const PlaceOptions& options);
Allocation parse_pjm(const facts::Snapshot& snapshot, const PlaceOptions& options);

}  // namespace ddprun::allocation
