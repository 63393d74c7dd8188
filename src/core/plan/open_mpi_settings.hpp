// Effects of Open MPI's mpirun on one ddprun per node, as mpirun expects one MPI process per core.
#pragma once

#include <optional>

#include "base/duration.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::plan {

// Returns a notice if mpirun has bound the agent: up to two processes are bound to a core each unless
// --bind-to says otherwise (mpirun(1)), and with one ddprun a node all its workers have that core.
std::optional<allocation::Notice> find_bound_agent(const NodeProposal& node, const facts::Snapshot& snapshot);

// Returns a notice if mpirun kills early: a stop signal to it reaches every process, and
// odls_base_sigkill_timeout later, a second by default, all are killed: less than `grace`, which workers were
// promised.
std::optional<allocation::Notice> find_early_kill(const facts::Snapshot& snapshot, Milliseconds grace);

}  // namespace ddprun::plan
