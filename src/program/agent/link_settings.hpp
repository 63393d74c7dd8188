// Announcement of an agent and settings of the service of its role, as values from its plan.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_process.hpp"
#include "facts/snapshot.hpp"
#include "net/coordinator_service.hpp"
#include "net/member_service.hpp"
#include "plan/finalise.hpp"
#include "plan/node_proposal.hpp"
#include "rendezvous/coordinator_address.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

// Reports whether another agent may coordinate the job when its coordinator is lost. A worker that hosts the
// store keeps ports on its own host alone.
bool can_succeed(const plan::NodeProposal& node);
// Returns the ports where this agent would listen as coordinator, which the others learn from its roster
// (status_messages.hpp): the last of those that a user's firewall is open for, as the store begins with the
// first.
std::vector<int> successor_ports(const plan::NodeProposal& node);

// Returns the ports of which an agent's helper process listens on one for other agents.
std::vector<int> door_ports(const plan::NodeProposal& node, const std::string& purpose);

// Returns the ports of which this agent listens on one for relays to the store, if there are relays.
std::vector<int> relay_ports(const plan::NodeProposal& node);

// Ports where this agent listens for others; 0 and empty: none.
struct OwnDoors {
  int successor_port = 0;
  int relay_port = 0;
  std::string stage;       // Announcement::stage_door
  std::string checkpoint;  // Announcement::checkpoint_door
};

// Returns the settings of this agent's checkpoints; their memory is 0 without --checkpoint-memory.
checkpoints::CheckpointSettings make_checkpoint_settings(const plan::NodeProposal& node);

plan::Announcement make_announcement(const plan::NodeProposal& node, const facts::Snapshot& snapshot,
                                     const OwnDoors& doors, const workers::WorkerGroup& workers);
net::CoordinatorServiceSettings make_coordinator_settings(
    const plan::NodeProposal& node, const facts::Snapshot& snapshot, plan::Announcement announcement,
    const std::optional<rendezvous::LaunchFailure>& failure, bool records);
net::MemberServiceSettings make_member_settings(const plan::NodeProposal& node,
                                                const facts::Snapshot& snapshot,
                                                const plan::Announcement& announcement);
// Returns the settings of a member that joins the first coordinator, whose address is in the plan.
net::MemberServiceSettings make_first_member_settings(const plan::NodeProposal& node,
                                                      const facts::Snapshot& snapshot,
                                                      const plan::Announcement& announcement);
// Returns the address that is published for members: numeric only, the best first. Without a network there
// are members on this host at most.
rendezvous::CoordinatorPlace place_of(const net::CoordinatorServiceSettings& settings, int port);

// Plans that the parts of an agent work by, always the latest.

struct Plans {
  std::shared_ptr<const plan::NodeProposal> node;
  std::shared_ptr<const plan::LaunchPlan> attempt =
      std::make_shared<const plan::LaunchPlan>();  // plan of the latest start
};

}  // namespace ddprun::agent
