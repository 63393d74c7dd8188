// Slurm step of this process, as the kernel shows it: variables are inherited and may be another step's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "facts/snapshot.hpp"

namespace ddprun::allocation {

enum class SlurmContext {
  step,         // a task of srun
  batch,        // the script of sbatch
  interactive,  // the shell of salloc on the first node (LaunchParameters=use_interactive_step)
  external,     // adopted into the job, e.g. by pam_slurm_adopt
  shell,        // salloc's, on the host it was called on; never found by the functions below
};

struct SlurmPlace {
  std::int64_t job = 0;
  SlurmContext context = SlurmContext::step;
  std::int64_t step = 0;  // for SlurmContext::step
  std::string origin;     // "slurmstepd: [29.0]"
  friend bool operator==(const SlurmPlace&, const SlurmPlace&) = default;
};

// Parses "slurmstepd: [29.0]", "[29.batch]", "[29+1.0]", "[29.0+1]", "[29.0 stepmgr]" (slurmstepd.c,
// _set_job_log_prefix); of a heterogeneous job's "29+1" the leader's number. nullopt for any other title.
std::optional<SlurmPlace> parse_stepd_title(std::string_view title);

// Parses ".../job_29/step_0/..." of /proc/self/cgroup; nullopt if the path names no job, as with the SLUIDs
// of Slurm 26.05 or inside a container.
std::optional<SlurmPlace> parse_slurm_cgroup(std::string_view cgroup);

// Returns the nearest slurmstepd among the ancestors, else the cgroup's step. nullopt is no proof of
// anything: a container with its own process namespace shows neither.
std::optional<SlurmPlace> find_slurm_place(const facts::HostFacts& host);

// Reports whether Slurm signals every process of the step and not only its tasks, twice within milliseconds
// at a time limit or a preemption: ProctrackType=proctrack/linuxproc (its kill_tree.c; slurmd's
// _rpc_timelimit). Seen where no cgroup of Slurm's has this process.
bool signals_each_process(const facts::HostFacts& host);

// Reports whether Slurm's SIGTERM ends the shell of the batch script that started this process, and Slurm
// then kills the process at once: in a batch step, where Slurm knows a step's processes by their cgroup. Not
// where ddprun has taken the shell's place (exec).
bool ends_with_batch_shell(const facts::HostFacts& host);

}  // namespace ddprun::allocation
