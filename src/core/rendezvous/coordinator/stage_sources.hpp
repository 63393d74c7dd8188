// Trees of an attempt: sources of the copies of --stage, and stores that relays try.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "plan/world_plan.hpp"
#include "rendezvous/membership/membership.hpp"
#include "staging/tree.hpp"

namespace ddprun::rendezvous {

// Sources that each agent gets its copies from (--stage), chosen by the coordinator.

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

// Tree of the relays to the store of an attempt.

// Returns, in the order of the announcements, the stores that each agent's relay tries: its parent first,
// then the root in case the parent cannot be reached. Empty for `root`, whose agent serves the store, and for
// every agent if it serves no relays. No agent has more than `fan_out` children; neighbours in the order are
// near each other.
std::vector<std::vector<plan::StorePlace>> make_store_tree(
    const std::vector<plan::Announcement>& announcements, std::size_t root, int fan_out);

}  // namespace ddprun::rendezvous
