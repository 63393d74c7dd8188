// Sources that each agent gets its copies from (--stage), chosen by the coordinator.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "rendezvous/membership/membership.hpp"
#include "staging/tree.hpp"

namespace ddprun::rendezvous {

// Returns the server at a door that the agent has announced.
staging::Server server_of(const plan::Announcement& announced, const std::string& door);

class StageSources {
 public:
  // Covers all agents that are here, as any may need copies. Neighbours in the scheduler's order are near
  // each other. The coordinator's own host reads the original.
  StageSources(const Membership& members, AgentIndex own);
  // Returns the sources of an agent. None: it reads for itself, or nothing is staged.
  std::vector<staging::Server> of(AgentIndex agent) const;

 private:
  std::map<AgentIndex, std::size_t> places_;
  std::optional<staging::Tree> tree_;
};

}  // namespace ddprun::rendezvous
