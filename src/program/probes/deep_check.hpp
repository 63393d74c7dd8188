// --check=deep: a real all-reduce by torch on all ranks, and a matmul on each GPU.
#pragma once

#include "check/deep_result.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::probes {

// Runs in the Python of the job, with the variables of this worker. Waits for the other ranks, three minutes
// at most; a failure is an error of the result.
check::DeepResult run_deep_check(int rank, const facts::Snapshot& snapshot);

}  // namespace ddprun::probes
