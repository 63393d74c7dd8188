// Decision whether the workers of each node reach the store through a relay on it.
#pragma once

#include "plan/node_proposal.hpp"

namespace ddprun::plan {

inline bool has_store_relays(const NodeProposal& node) {
  return node.rendezvous.agents > 1 && node.options.store == options::StoreHost::agent &&
         options::wants_tree(node.options.store_tree, node.world_size.value);
}

}  // namespace ddprun::plan
