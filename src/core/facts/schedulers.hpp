// Table of schedulers, with what has to be known of each before its jobs are looked at.
// Another one is a row here and a file in allocation/schedulers that reads its jobs, with its row in
// allocation/detection/detect.cpp.
#pragma once

#include <array>
#include <string_view>

#include "base/duration.hpp"

namespace ddprun::facts {

// Scheduler that granted the hosts. The MPI launcher that started this process on them is
// Allocation::launcher.
enum class Scheduler { none, manual, slurm, pbs, lsf, flux, sge, oar, pjm };

struct SchedulerTraits {
  Scheduler scheduler = Scheduler::none;
  std::string_view name;          // name for --scheduler, plans and launch keys
  std::string_view job_variable;  // the id of the job that a process belongs to
  std::string_view prefix;        // prefix of the variables that a job has of its own
  // Programs that start ddprun on other hosts of its jobs, best first; the unused ones are empty.
  std::array<std::string_view, 4> remote_launchers;
  // The default of --shutdown-timeout, below what the scheduler leaves between SIGTERM and SIGKILL (Slurm's
  // KillWait is 30 s, PBS' kill_delay 10 s, counted from the same SIGTERM); 0: the scheduler is patient.
  Milliseconds grace{0};
  std::string_view grace_origin;
};

inline constexpr std::array<SchedulerTraits, 7> k_schedulers{
    {{Scheduler::slurm,
      "slurm",
      "SLURM_JOB_ID",
      "SLURM_",
      {"srun"},
      Milliseconds{25000},
      "default below Slurm's KillWait"},
     {Scheduler::pbs,
      "pbs",
      "PBS_JOBID",
      "PBS_",
      {"mpiexec", "pbsdsh", "pbs_tmrsh", "ssh"},
      Milliseconds{5000},
      "default below PBS' kill_delay"},
     {Scheduler::lsf, "lsf", "LSB_JOBID", "LSB_", {"blaunch", "ssh"}, {}, {}},
     {Scheduler::flux, "flux", "FLUX_JOB_ID", "FLUX_", {"flux"}, {}, {}},
     // Any program may have a JOB_ID.
     {Scheduler::sge, "sge", "PE_HOSTFILE", "SGE_", {"qrsh", "ssh"}, {}, {}},
     {Scheduler::oar, "oar", "OAR_JOB_ID", "OAR_", {"oarsh", "ssh"}, {}, {}},
     {Scheduler::pjm, "pjm", "PJM_JOBID", "PJM_", {"pjrsh", "ssh"}, {}, {}}}};

// Returns nullptr for `none` and `manual`, which are no schedulers.
const SchedulerTraits* find_traits(Scheduler scheduler);

}  // namespace ddprun::facts
