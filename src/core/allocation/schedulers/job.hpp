// Hosts that a scheduler granted, before it is known how ddprun was started on them.
// Also the two answers that do not depend on which scheduler it was: started by a launcher of MPI processes,
// or not started yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/launchers/launchers.hpp"
#include "allocation/manual.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

struct Job {
  std::string name;  // "PBS job 0.ctl", for messages; empty: no job
  // Scheduler, job, limits and flags that count in any launch.
  Allocation base;
  Sourced<std::vector<std::string>> hosts;  // each once; no origin: not told here
  bool hosts_in_environment = false;        // told to every process of the job alike
  std::optional<int> own;                   // this host's position in `hosts`
  std::string leak_hint;                    // remedy if the variables are another job's
  bool script_on_first = false;             // the scheduler runs the job's script on the first of them
  std::optional<bool> below_script;         // the job's script is above this process; nullopt: not known
};

// Returns a job without a scheduler: only what the flags say.
Job make_no_job(const PlaceOptions& options);

// Returns the launch that `place` describes on the hosts of `job`. Throws Error if the launcher started a
// single process on several hosts or does not tell enough, and UsageError if flags contradict it.
Allocation follow_launcher(const Job& job, const LaunchPlace& place, const facts::Snapshot& snapshot,
                           const PlaceOptions& options);

// No launcher started this process: alone where the job has one host or one was asked for, by hand where the
// flags are complete, else not_started. Throws Error where the hosts are not known or do not have this one,
// and where this process is not below the job's script.
Allocation settle_unstarted(const Job& job, const std::string& origin, const facts::Snapshot& snapshot,
                            const PlaceOptions& options);

// Returns this process alone, with what the job says.
Allocation stand_alone(const Job& job, const facts::Snapshot& snapshot, const PlaceOptions& options,
                       const std::string& origin);

}  // namespace ddprun::allocation
