// Which variable tells the job that a process belongs to.
#pragma once

#include <array>

namespace ddprun {

struct JobVariable {
  const char* scheduler;
  const char* name;
};

inline constexpr std::array<JobVariable, 4> k_job_variables{
    {{"slurm", "SLURM_JOB_ID"}, {"pbs", "PBS_JOBID"}, {"lsf", "LSB_JOBID"}, {"flux", "FLUX_JOB_ID"}}};

}  // namespace ddprun
