// Jobs that no scheduler of the table reads.
// They are a process inside a Slurm job of which its environment shows nothing, since a container or a script
// removed the variables; and NQSV's.
#pragma once

#include <optional>

#include "allocation/allocation.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// Throws Error in a container where the kernel shows a step of srun above this process, but SLURM_JOB_ID is
// not set: each task of the step would train alone. Outside containers probes/launch_facts.hpp says so.
void check_no_hidden_step(const facts::Snapshot& snapshot);

// Returns a notice in a batch script's or an interactive shell's container that shows no SLURM_JOB_ID, where
// one host may well be meant; nullopt if there is no such container.
std::optional<Notice> find_hidden_job(const facts::Snapshot& snapshot);

// Returns a notice in a job of NEC's NQSV with several hosts, whose scheduler is not known here.
std::optional<Notice> find_nqsv_job(const facts::Snapshot& snapshot);

}  // namespace ddprun::allocation
