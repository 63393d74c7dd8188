// Whom each agent gets its copies from (--stage), as the coordinator tells it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "rendezvous/membership/membership.hpp"
#include "staging/tree.hpp"

namespace ddprun::rendezvous {

class StageSources {
 public:
  // Of all that are here, as any of them may have to get copies, in the scheduler's order, by which
  // neighbours are near each other. The coordinator's own host reads what is staged.
  StageSources(const Membership& members, AgentIndex own);
  // None: it reads for itself, or nothing is staged.
  std::vector<staging::Server> of(AgentIndex agent) const;

 private:
  std::map<AgentIndex, std::size_t> places_;
  std::optional<staging::Tree> tree_;
};

}  // namespace ddprun::rendezvous
