// Facts that no variable shows, but the library of a launcher or a scheduler does, or the cores granted.
// Each call runs in a child with a time limit: these libraries wait, and end the process they are in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "allocation/allocation.hpp"
#include "allocation/schedulers/job_end.hpp"
#include "facts/program.hpp"
#include "facts/snapshot.hpp"
#include "os/core_claims.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::probes {

// Restriction of this process to as many cores as its job was granted, where the scheduler leaves that to it.
// They are others than those of other ddprun processes here.

// Returns the plan for the cores that were had: `plan` itself if there is nothing to follow. The claims have
// to outlive the workers.
plan::NodeProposal keep_to_granted_cpus(plan::NodeProposal node, facts::Snapshot& snapshot,
                                        os::CoreClaims& claims);

// Asks PRRTE and other PMIx servers, which give a process its rank alone. Their answers become variables with
// the names of PMIx' attributes: PMIX_JOB_SIZE, PMIX_NUM_NODES, PMIX_LOCAL_RANK, PMIX_LOCAL_SIZE. Asks
// nothing if a launcher's variables tell how many processes there are.
void ask_pmix_for_size(facts::Snapshot& snapshot);

// Asks when Slurm will end the job, extensions of its time limit included, and sets SLURM_JOB_END_TIME; Slurm
// before 23.02 sets no such variable. Left as it is if slurmctld cannot be asked.
void ask_slurm_for_end(facts::Snapshot& snapshot);

// Asks, for a plan that is shown, when the job ends, if no variable says it, and for KillWait of Slurm's
// configuration, as allocation::k_slurm_config among the files of the snapshot.
void ask_for_job_time(allocation::Allocation& allocation, facts::Snapshot& snapshot);

// Asks Slurm for the tasks that the job's script asked for, on the first agent of a step that has its own
// number: the coordinator tells the others. Left as they are if slurmctld does not answer within two seconds.
void ask_for_tasks(allocation::Allocation& allocation, const options::Options& options,
                   const facts::Snapshot& snapshot);

// Adds what Slurm shows of its switches to the files of the snapshot, where --order needs it.
void ask_for_topology(const allocation::Allocation& allocation, const options::Options& options,
                      facts::Snapshot& snapshot);

// Returns what Slurm or PBS shows of the job; nothing if it does not answer within two seconds.
std::optional<allocation::ShownJob> ask_for_job(const allocation::Allocation& allocation);

// Returns the seconds since a date like "Thu Nov 26 23:37:52 2026" in this host's time zone.
std::optional<std::int64_t> age_of_date(const std::string& date);

// Returns the reason why the scheduler ends the job just now; empty if it does not, or does not say so within
// a second.
std::string ask_why_job_ends(const allocation::Allocation& allocation);

// Returns the facts of the workers' Python, as far as files show them; none if they are another program.
facts::PythonFacts python_of_workers(const plan::NodeProposal& node, const facts::Snapshot& snapshot);

// Returns a notice if this process belongs to a job whose variables it does not have, as in a shell by ssh
// under pam_slurm_adopt, and ddprun would use this host alone.
std::optional<allocation::Notice> find_job_without_variables(const facts::Snapshot& snapshot,
                                                             const allocation::Allocation& allocation);

}  // namespace ddprun::probes
