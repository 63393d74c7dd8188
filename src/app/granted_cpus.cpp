#include "granted_cpus.hpp"

#include <algorithm>

#include "ddprun/os/capture/own_cpus.hpp"
#include "ddprun/plan/granted_cores.hpp"
#include "ddprun/plan/make_node_plan.hpp"

namespace ddprun {

NodePlan keep_to_granted_cpus(NodePlan plan, Snapshot& snapshot, CoreClaims& claims) {
  const GrantedCores granted = find_granted_cores(plan, snapshot);
  if (granted.count == 0) return plan;
  const std::vector<int> cpus = claims.claim(granted.cores, granted.count);
  if (cpus.empty() || !keep_to_cpus(cpus)) {
    plan.notices.push_back(describe_held_cores(plan.host, granted));
    return plan;
  }
  snapshot.host.allowed_cpus = cpus;
  snapshot.host.allowed_cores = granted.count;
  return make_node_plan(snapshot, plan.options, plan.allocation);
}

}  // namespace ddprun
