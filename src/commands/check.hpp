// --check: the job is a check of its nodes. Each node's agent starts ddprun itself as the worker, with
// k_check_node; these meet in the workers' store, and rank 0 prints what is wrong.
#pragma once

#include "facts/snapshot.hpp"
#include "options/options.hpp"

namespace ddprun::commands {

// Where a check is wanted: the options become those of its own workers instead of the training's.
void make_check_job(options::Options& options);

// Whether this process is such a worker.
bool is_check_node(const facts::Snapshot& snapshot);
// Runs it. Returns the exit code, on rank 0 whether a job would fail. Throws Error.
int check_node(const facts::Snapshot& snapshot);

}  // namespace ddprun::commands
