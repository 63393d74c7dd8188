// Discovery of the coordinator beside the addresses that members can know, and proofs of membership.
#pragma once

#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::plan {

// Fills key_value_space, rendezvous_file and secrets. All agents of a launch must come to the same answer, so
// it follows from the launcher and the options, never from what one host happens to know.
//
// Unasked, PMI is spoken where one agent a node was started by a launcher that does not name the first host
// to all of them (Allocation::first_known), hydra above all: a connection that was used cannot serve an MPI
// program everywhere, and there it can. PMIx and Slurm's pmi2 are spoken when asked for only (--rdzv pmi). A
// rendezvous file is there wherever the first host is not known to all.
//
// Throws UsageError for a way that was asked for and cannot be gone.
void choose_discovery(RendezvousPlan& rendezvous, const allocation::Allocation& allocation,
                      const options::Options& options, const facts::Snapshot& snapshot);

}  // namespace ddprun::plan
