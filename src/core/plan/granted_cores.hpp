// Cores of a job whose scheduler grants some of a host's but enforces nothing: PBS without the cgroups hook.
// Its jobs may use the whole host, so two of them would begin with the same cores.
#pragma once

#include <string>
#include <vector>

#include "plan/node_proposal.hpp"

namespace ddprun::plan {

struct GrantedCores {
  int count = 0;       // 0: this process' mask is all there is to follow
  std::string origin;  // "NCPUS"
  // All cores of the mask by their CPUs, in the order in which they are wanted: those near the workers' GPUs
  // first, one for each in turn.
  std::vector<std::vector<int>> cores;
};

GrantedCores find_granted_cores(const NodeProposal& node, const facts::Snapshot& snapshot);

// Describes that other jobs hold so many cores that this one cannot get its own.
allocation::Notice describe_held_cores(const std::string& host, const GrantedCores& granted);

}  // namespace ddprun::plan
