// Detection of the allocation from a snapshot: a table of detectors, asked in a fixed order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/manual.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// Jobs that no scheduler of the table reads.
// They are a process inside a Slurm job of which its environment shows nothing, since a container or a script
// removed the variables; and NQSV's.

// Throws Error in a container where the kernel shows a step of srun above this process, but SLURM_JOB_ID is
// not set: each task of the step would train alone. Outside containers probes/launch_facts.hpp says so.
void check_no_hidden_step(const facts::Snapshot& snapshot);

// Returns a notice in a batch script's or an interactive shell's container that shows no SLURM_JOB_ID, where
// one host may well be meant; nullopt if there is no such container.
std::optional<Notice> find_hidden_job(const facts::Snapshot& snapshot);

// Returns a notice in a job of NEC's NQSV with several hosts, whose scheduler is not known here.
std::optional<Notice> find_nqsv_job(const facts::Snapshot& snapshot);

// Detects the allocation. Throws Error or UsageError when the variables contradict each other, belong to
// another job, or make a launch that cannot be right; odd but workable ones come back in Allocation::notices.
// Asked in this order: what a ddprun that started this one said, hosts that the user lists; Flux, Slurm, PBS,
// LSF (if several have left variables, the one whose processes are above this one); without any of them the
// flags of a launch by hand if they are complete, a launcher of MPI processes, by hand, alone. A launcher's
// place goes with the job of the scheduler around it.
// --standalone needs no scheduler: what is wrong with its variables is then only a notice.
Allocation detect_allocation(const facts::Snapshot& snapshot, const PlaceOptions& options);

// Returns the values of --scheduler: "flux", "slurm", "pbs", "lsf", "mpi" (a launcher's variables alone),
// "none".
std::vector<std::string> scheduler_names();

}  // namespace ddprun::allocation
