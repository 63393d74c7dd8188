// The end of a scheduler's job and its reason, from what the scheduler's own program shows of the job.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocation/allocation.hpp"
#include "base/duration.hpp"
#include "base/sourced.hpp"
#include "facts/schedulers.hpp"

namespace ddprun::allocation {

// When a scheduler ends a job, and why it has, from what its own program shows of the job.

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

// Remaining time, restarts and grace of a job, from what the scheduler's own programs show.
// The grace is the time between the scheduler's SIGTERM and its SIGKILL.

// The command line that shows how long the job may still run; empty where there is none:
//   Slurm  squeue -h -j 29 -o "%A %i %L"  "29 29 23:59:30", "30 29_3 1-02:00:00", "31 30+1 UNLIMITED": all
//   elements of an array, all components of a heterogeneous job
//   PBS    qstat -f 29.ctl              stime and Resource_List.walltime
//   LSF    bjobs -noheader -o time_left 29   "23:59 L": L and X are limits, E is an estimate (documented
//   only) Flux   flux job timeleft fABC       seconds, UINT_MAX without a limit (documented only)
std::vector<std::string> time_question(const Allocation& allocation);

// In seconds, from what that printed; nothing without a limit, and where it says something else. Of a
// heterogeneous job's components the first to end counts.
std::optional<std::int64_t> parse_time_left(const Allocation& allocation, std::string_view shown,
                                            const AgeOfDate& age_of);

// Bytes of what these programs print: all elements of an array.
inline constexpr std::size_t k_most_shown = std::size_t{16} << 20;

// The command line that shows the job: scontrol show job 29, qstat -f 29.ctl; empty where there is none.
std::vector<std::string> job_question(const Allocation& allocation);

struct ShownJob {
  std::string name;             // name of the job alone, for the scheduler's programs: "29_3" of the array 29
  std::optional<int> restarts;  // number of times that the scheduler had started it before
};

// Parses what that printed: Slurm's Restarts, and one less than PBS' run_count. Returns nothing if Slurm
// shows no such job.
std::optional<ShownJob> parse_shown_job(const Allocation& allocation, std::string_view shown);

// Among the files of a snapshot: the lines of `scontrol show config` that count here.
inline constexpr std::string_view k_slurm_config = "scontrol show config";

// Returns the time from SIGTERM to SIGKILL at the time limit. `slurm_config`: what `scontrol show config`
// shows, or nothing; else the schedulers' defaults. No origin: not known.
Sourced<Milliseconds> end_grace(facts::Scheduler scheduler, std::string_view slurm_config);

// The command line that shows how a job that is signalled will end; empty where there is none.
std::vector<std::string> grace_question(facts::Scheduler scheduler, const std::string& job);

// Returns the time that the workers may take to stop, from the signal to a moment before Slurm kills them.
// `job`: what `scontrol show job` shows, of a job that is being preempted or is over; nothing is known of
// another job, or of a step that was signalled. `config`: as end_grace()'s.
std::optional<Milliseconds> parse_stop_grace(std::string_view job, std::string_view config);

// The forms in which schedulers' programs show a job: pairs, attributes and spans of time.

// Reads Slurm's "Key=value Key=value"; the first of each name counts.
std::map<std::string, std::string> read_pairs(std::string_view shown);
// The pairs of one job among the records of `scontrol show job`, each of which begins with JobId: the id of
// an array shows all its elements, that of a heterogeneous job all its components. Empty where it is not
// shown.
std::map<std::string, std::string> read_slurm_job(std::string_view shown, const std::string& id);
// Reads PBS' "    name = value", continued by lines that begin with a tab.
std::map<std::string, std::string> read_attributes(std::string_view shown);
// Parses "45", "30:00", "01:00:00" or "1-02:00:00" in seconds.
std::optional<std::int64_t> parse_span(std::string_view text);

}  // namespace ddprun::allocation
