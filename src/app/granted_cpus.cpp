#include "granted_cpus.hpp"

#include <algorithm>

#include "ddprun/os/capture/own_cpus.hpp"
#include "ddprun/plan/granted_cores.hpp"
#include "ddprun/plan/propose.hpp"

namespace ddprun {

NodeProposal keep_to_granted_cpus(NodeProposal node, Snapshot& snapshot, CoreClaims& claims) {
  const GrantedCores granted = find_granted_cores(node, snapshot);
  if (granted.count == 0) return node;
  const std::vector<int> cpus = claims.claim(granted.cores, granted.count);
  if (cpus.empty() || !keep_to_cpus(cpus)) {
    node.notices.push_back(describe_held_cores(node.host, granted));
    return node;
  }
  snapshot.host.allowed_cpus = cpus;
  snapshot.host.allowed_cores = granted.count;
  return propose(snapshot, node.options, node.allocation);
}

}  // namespace ddprun
