// From a snapshot to an allocation: a table of detectors, asked in a fixed order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddprun/allocation/allocation.hpp"
#include "ddprun/facts/snapshot.hpp"

namespace ddprun {

// The part of the command line that decides where we are (torchrun's spellings).
struct PlaceOptions {
  std::optional<Sourced<int>> nodes;      // --nnodes
  std::optional<Sourced<int>> node_rank;  // --node-rank
  // --master-addr or host part of --rdzv-endpoint; an origin with "endpoint" in it makes 29400 the default
  // port instead of 29500, as torchrun's c10d does.
  std::optional<Sourced<std::string>> address;
  // MASTER_ADDR of the environment, where nothing above is given: node 0 is probably there.
  std::optional<Sourced<std::string>> likely_address;
  std::optional<Sourced<int>> port;            // --master-port, port part of --rdzv-endpoint, or MASTER_PORT
  std::optional<Sourced<std::string>> run_id;  // --rdzv-id
  std::optional<Sourced<int>> workers_per_node;   // --nproc-per-node as a number
  bool standalone = false;                        // --standalone
  std::optional<Sourced<std::string>> scheduler;  // --scheduler: a detector's name, asked instead of all
  std::optional<Sourced<std::vector<std::string>>> hosts;  // --hosts, --hostfile: each once, in that order
};

// Throws Error or UsageError when the variables contradict each other, belong to another job, or make a
// launch that cannot be right; what is odd but workable comes back in Allocation::notices.
// Asked in this order: what a ddprun that started this one said, hosts that the user lists; Flux, Slurm, PBS,
// LSF (where several have left variables, the one whose processes are
// above this one); without any of them the flags of a launch by hand where they are complete, a launcher of
// MPI processes, by hand, alone. A launcher's place goes with the job of the scheduler around it.
// --standalone needs no scheduler: what is wrong with its variables is then only a notice.
Allocation detect_allocation(const Snapshot& snapshot, const PlaceOptions& options);

// What --scheduler takes: "flux", "slurm", "pbs", "lsf", "mpi" (a launcher's variables alone), "none".
std::vector<std::string> scheduler_names();

}  // namespace ddprun
