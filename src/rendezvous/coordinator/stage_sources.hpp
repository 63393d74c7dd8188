// Whom each agent gets its copies from (--stage), as the coordinator tells it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "plan/world_plan.hpp"
#include "staging/tree.hpp"

namespace ddprun::rendezvous {

class StageSources {
 public:
  void add(AgentIndex agent, const plan::Announcement& announced);
  // The host of that agent reads what is staged; it was added, as all were.
  void build(AgentIndex root);
  // None: it reads for itself, or nothing is staged.
  std::vector<staging::Server> of(AgentIndex agent) const;

 private:
  std::vector<staging::Server> servers_;
  std::map<AgentIndex, std::size_t> places_;
  std::optional<staging::Tree> tree_;
};

}  // namespace ddprun::rendezvous
