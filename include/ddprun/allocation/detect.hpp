// From a snapshot to an allocation: a table of detectors, asked in a fixed order.
#pragma once

#include <optional>
#include <string>

#include "ddprun/allocation/allocation.hpp"
#include "ddprun/facts/snapshot.hpp"

namespace ddprun {

// The part of the command line that decides where we are (torchrun's spellings).
struct PlaceOptions {
  std::optional<Sourced<int>> nodes;             // --nnodes
  std::optional<Sourced<int>> node_rank;         // --node-rank
  std::optional<Sourced<std::string>> address;   // --master-addr or host part of --rdzv-endpoint
  std::optional<Sourced<int>> port;              // --master-port or port part of --rdzv-endpoint
  std::optional<Sourced<std::string>> run_id;    // --rdzv-id
  std::optional<Sourced<int>> workers_per_node;  // --nproc-per-node as a number
  bool standalone = false;                       // --standalone
};

// Throws Error or UsageError when the variables contradict each other, belong to another job, or make a
// launch that cannot be right; what is odd but workable comes back in Allocation::notices.
Allocation detect_allocation(const Snapshot& snapshot, const PlaceOptions& options);

}  // namespace ddprun
