// Reason why a scheduler ends a job, from what its own program shows of the job at that moment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "allocation/allocation.hpp"

namespace ddprun::allocation {

// Describes the end by `scontrol show job`: "job 29 reached its time limit of 01:00:00", "job 29 was
// preempted", "... and is requeued", "job 29 is requeued", "job 29 was cancelled" (with "or its script has
// ended" while the script runs on). Empty if it shows none of these, as for a step that was signalled. By
// whom it was cancelled only Slurm's accounting knows. Seen with Slurm 22.05: while the job ends its state is
// COMPLETING, whatever ended it.
std::string describe_end_of_slurm_job(std::string_view shown, const Allocation& allocation);

// Function that returns the seconds since a date like "Thu Nov 26 23:37:52 2026", which PBS shows in this
// host's time zone, as `age_of`. `qstat -f` gives: "job 29.ctl reached its walltime of 01:00:00", "... was
// deleted by alice@login1", "... is requeued". Seen with OpenPBS 23.06, which sends SIGTERM while the job's
// state is still R.
using AgeOfDate = std::function<std::optional<std::int64_t>(const std::string& date)>;
std::string describe_end_of_pbs_job(std::string_view shown, const Allocation& allocation,
                                    const AgeOfDate& age_of);

// Reports whether a description says that the job was at its time limit.
bool names_time_limit(std::string_view description);

}  // namespace ddprun::allocation
