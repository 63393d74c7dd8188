#include "rendezvous/coordinator/store_tree.hpp"

#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun::rendezvous {

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
