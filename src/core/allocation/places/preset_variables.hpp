// Variables that a place or the hook of a container sets for every process: not the user's choice.
#pragma once

#include <optional>
#include <string>

#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// Returns who set OMP_NUM_THREADS=1: "SkyPilot" (Ray's num_cpus), "the container's hook" (enroot,
// conf/hooks/extra/50-slurm-pytorch.sh); nullopt if the value may be the user's.
std::optional<std::string> find_threads_preset(const facts::Environment& environment);

// Reports whether MASTER_PORT is that hook's: 61000 + job id % 4536, the same for all steps of a job.
bool is_port_of_hook(const facts::Environment& environment);

}  // namespace ddprun::allocation
