// The srun that started this process, and an interpreter's Python and torch, from files alone.
#pragma once

#include <optional>
#include <string>

#include "facts/program.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::os {

// The srun that started this process, where it runs on this host.

// Captures the options of srun in a batch job's step, on the job's first host. nullopt elsewhere: a step's
// variables, `scontrol show step` and libslurm tell neither whether --no-kill was given nor
// --kill-on-bad-exit (Slurm 22.05), and the srun of a login node is on another host. nullopt also if /proc
// shows other processes than ours or hides srun.
std::optional<facts::StepOptions> capture_step_options(const facts::Snapshot& snapshot);

// Reads which Python and torch an interpreter has, from files alone: nothing is run or imported.

// Captures the Python whose program has the path `interpreter`. A few dozen files are looked for and two are
// read; packages in places other than those of CPython's site.py and Debian are not found.
facts::PythonFacts capture_python(const std::string& interpreter, const facts::Environment& environment);

// Returns the version of the NCCL package beside its torch (nvidia-nccl-cu12); empty if there is none. Lists
// the packages' folder.
std::string find_nccl_version(const std::string& interpreter, const facts::Environment& environment);

}  // namespace ddprun::os
