#include "rendezvous/coordinator/stage_sources.hpp"

#include <utility>

#include "base/text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/coordinator_address.hpp"

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

std::vector<std::vector<plan::StorePlace>> make_store_tree(
    const std::vector<plan::Announcement>& announcements, std::size_t root, int fan_out) {
  std::vector<std::vector<plan::StorePlace>> places(announcements.size());
  const auto place_of = [&](std::size_t agent) {
    return plan::StorePlace{announcements[agent].addresses, announcements[agent].relay_port};
  };
  if (announcements[root].relay_port == 0) return places;
  std::vector<std::size_t> order{root};
  for (std::size_t agent = 0; agent < announcements.size(); ++agent) {
    if (agent != root) order.push_back(agent);
  }
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::size_t parent = order[(i - 1) / static_cast<std::size_t>(fan_out)];
    if (parent != root && announcements[parent].relay_port > 0) places[order[i]].push_back(place_of(parent));
    places[order[i]].push_back(place_of(root));
  }
  return places;
}

std::map<AgentIndex, std::vector<plan::StorePlace>> Coordinator::store_places() {
  std::map<AgentIndex, std::vector<plan::StorePlace>> places;
  if (settings_.store_fan_out == 0 || world_.world_size < 2) return places;
  std::vector<plan::Announcement> announcements;
  std::size_t root = 0;
  for (const AgentIndex agent : members_.participants()) {
    if (agent == settings_.own) root = announcements.size();
    announcements.push_back(announced(agent));
  }
  auto tree = make_store_tree(announcements, root, settings_.store_fan_out);
  std::size_t next = 0;
  for (const AgentIndex agent : members_.participants()) places[agent] = std::move(tree[next++]);
  return places;
}

}  // namespace ddprun::rendezvous
