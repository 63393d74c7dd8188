// The part of the command line that decides where we are (torchrun's spellings).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/sourced.hpp"

namespace ddprun::allocation {

struct PlaceOptions {
  std::optional<Sourced<int>> nodes;      // --nnodes
  std::optional<Sourced<int>> node_rank;  // --node-rank
  // --master-addr or host part of --rdzv-endpoint; Source::endpoint makes 29400 the default port instead of
  // 29500, as torchrun's c10d does.
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

}  // namespace ddprun::allocation
