// What an agent announces, and how the service of its role is set up: values from its plan.
#pragma once

#include <optional>
#include <vector>

#include "facts/snapshot.hpp"
#include "net/coordinator_service.hpp"
#include "net/member_service.hpp"
#include "plan/node_proposal.hpp"
#include "rendezvous/coordinator_place.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

// Whether another agent may coordinate the job when its coordinator is lost. A worker that hosts the store
// keeps ports on its own host alone.
bool can_succeed(const plan::NodeProposal& node);
// On which this agent would coordinate it: where the others know to look, as roster.hpp tells them; the last
// of those that a user's firewall is open for, as the store begins with the first.
std::vector<int> successor_ports(const plan::NodeProposal& node);

// On one of which this agent listens for relays to the store, where there are relays.
std::vector<int> relay_ports(const plan::NodeProposal& node);

// Where this agent listens for others; 0 and empty: nowhere.
struct OwnDoors {
  int successor_port = 0;
  int relay_port = 0;
  std::string stage;  // Announcement::stage_door
};

plan::Announcement make_announcement(const plan::NodeProposal& node, const facts::Snapshot& snapshot,
                                     const OwnDoors& doors, const workers::WorkerGroup& workers);
net::CoordinatorServiceSettings make_coordinator_settings(
    const plan::NodeProposal& node, const facts::Snapshot& snapshot, plan::Announcement announcement,
    const std::optional<rendezvous::LaunchFailure>& failure, bool records);
net::MemberServiceSettings make_member_settings(const plan::NodeProposal& node,
                                                const facts::Snapshot& snapshot,
                                                const plan::Announcement& announcement);
// Of the first coordinator, which the plan says where to find.
net::MemberServiceSettings make_first_member_settings(const plan::NodeProposal& node,
                                                      const facts::Snapshot& snapshot,
                                                      const plan::Announcement& announcement);
// Where to knock, for members that are told so: numbers only, the best addresses first. Without a network
// there are members on this host at most.
rendezvous::CoordinatorPlace place_of(const net::CoordinatorServiceSettings& settings, int port);

}  // namespace ddprun::agent
