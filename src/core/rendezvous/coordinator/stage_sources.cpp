#include "rendezvous/coordinator/stage_sources.hpp"

#include <utility>

#include "base/text.hpp"
#include "rendezvous/coordinator_place.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr std::size_t k_addresses = 4;

}  // namespace

staging::Server server_of(const plan::Announcement& announced, const std::string& door) {
  staging::Server server{printable(announced.host), door, {}};
  for (const std::string& address : announced.addresses) {
    if (server.addresses.size() < k_addresses && is_address(address)) server.addresses.push_back(address);
  }
  return server;
}

StageSources::StageSources(const Membership& members, AgentIndex own) {
  if (!members.at(own).announcement || members.at(own).announcement->stage_door.empty()) return;
  for (const auto& [connection, agent] : members.here()) places_.emplace(agent, 0);
  std::vector<staging::Server> servers;
  for (auto& [agent, place] : places_) {
    place = servers.size();
    const plan::Announcement& announced = *members.at(agent).announcement;
    servers.push_back(server_of(announced, announced.stage_door));
  }
  const auto root = places_.find(own);
  if (root != places_.end()) tree_.emplace(std::move(servers), root->second);
}

std::vector<staging::Server> StageSources::of(AgentIndex agent) const {
  const auto found = places_.find(agent);
  return tree_ && found != places_.end() ? tree_->sources_of(found->second) : std::vector<staging::Server>{};
}

}  // namespace ddprun::rendezvous
