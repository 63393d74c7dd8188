#include "probes/granted_cpus.hpp"

#include "os/machine/own_cpus.hpp"
#include "plan/granted_cores.hpp"
#include "plan/propose.hpp"

namespace ddprun::probes {

plan::NodeProposal keep_to_granted_cpus(plan::NodeProposal node, facts::Snapshot& snapshot,
                                        os::CoreClaims& claims) {
  const plan::GrantedCores granted = plan::find_granted_cores(node, snapshot);
  if (granted.count == 0) return node;
  const std::vector<int> cpus = claims.claim(granted.cores, granted.count);
  if (cpus.empty() || !os::keep_to_cpus(cpus)) {
    node.notices.push_back(plan::describe_held_cores(node.host, granted));
    return node;
  }
  snapshot.host.allowed_cpus = cpus;
  snapshot.host.allowed_cores = granted.count;
  return plan::propose(snapshot, node.options, node.allocation);
}

}  // namespace ddprun::probes
