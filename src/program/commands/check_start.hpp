// Checks before the first attempt.
// They are --check=auto, the part of a node's check that takes no time, in a job of several nodes; and the
// paths of --stage.
#pragma once

#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"
#include "probes/own_check.hpp"

namespace ddprun::commands {

// Says what is wrong with this node; warnings on the first one only, as all nodes would say the same. Where
// the job has nodes to spare, an error is thrown instead: the job starts without this node, whose name goes
// to the end of --exclude-file. Returns what it has seen, for later looks.
probes::StartLook check_before_start(const plan::NodeProposal& node, const facts::Snapshot& snapshot);

// Checks the paths on the host that reads them. Throws Error for a path of --stage that is not there.
void check_staged(const plan::NodeProposal& node, const facts::Snapshot& snapshot);

}  // namespace ddprun::commands
