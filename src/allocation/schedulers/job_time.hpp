// Remaining time, restarts and grace of a job, from what the scheduler's own programs show.
// The grace is the time between the scheduler's SIGTERM and its SIGKILL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocation/schedulers/job_end.hpp"
#include "base/duration.hpp"
#include "base/sourced.hpp"
#include "facts/schedulers.hpp"

namespace ddprun::allocation {

// Returns the command line that shows how long the job may still run; empty if there is none:
//     Slurm  squeue -h -j 29 -o %L             "23:59:30", "1-02:00:00", "UNLIMITED"
//     PBS    qstat -f 29.ctl                   stime and Resource_List.walltime
//     LSF    bjobs -noheader -o time_left 29   "23:59 L": L and X are limits, E is an estimate (documented
//   only)
//     Flux   flux job timeleft fABC            seconds, UINT_MAX without a limit (documented only)
std::vector<std::string> time_question(facts::Scheduler scheduler, const std::string& job);

// Parses what that printed, in seconds; nullopt without a limit, and for any other text.
std::optional<std::int64_t> parse_time_left(facts::Scheduler scheduler, std::string_view shown,
                                            const AgeOfDate& age_of);

// Parses `qstat -f`: one less than its run_count.
std::optional<int> parse_pbs_restarts(std::string_view shown);

// Among the files of a snapshot: the lines of `scontrol show config` that count here.
inline constexpr std::string_view k_slurm_config = "scontrol show config";

// Returns the time from SIGTERM to SIGKILL at the time limit. `slurm_config`: what `scontrol show config`
// shows, or nothing; else the schedulers' defaults. No origin: not known.
Sourced<Milliseconds> end_grace(facts::Scheduler scheduler, std::string_view slurm_config);

}  // namespace ddprun::allocation
