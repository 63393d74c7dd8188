// The srun that started this process, where it runs on this host.
#pragma once

#include <optional>

#include "facts/snapshot.hpp"

namespace ddprun::os {

// Captures the options of srun in a batch job's step, on the job's first host. nullopt elsewhere: a step's
// variables, `scontrol show step` and libslurm tell neither whether --no-kill was given nor
// --kill-on-bad-exit (Slurm 22.05), and the srun of a login node is on another host. nullopt also if /proc
// shows other processes than ours or hides srun.
std::optional<facts::StepOptions> capture_step_options(const facts::Snapshot& snapshot);

}  // namespace ddprun::os
