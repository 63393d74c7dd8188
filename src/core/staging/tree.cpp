#include "staging/tree.hpp"

#include <map>
#include <utility>

namespace ddprun::staging {

Tree::Tree(std::vector<Server> servers, std::size_t root) : servers_(std::move(servers)) {
  std::map<std::string, std::size_t> known;
  positions_.resize(servers_.size());
  const auto enter = [&](std::size_t agent) {
    const auto [found, is_new] = known.emplace(servers_[agent].host, hosts_.size());
    if (is_new) hosts_.push_back(agent);
    positions_[agent] = found->second;
  };
  if (root < servers_.size()) enter(root);
  for (std::size_t agent = 0; agent < servers_.size(); ++agent) enter(agent);
}

std::vector<Server> Tree::sources_of(std::size_t agent) const {
  std::vector<Server> sources;
  const auto add = [&](std::size_t position) {
    const Server& server = servers_[hosts_[position]];
    if (!server.door.empty()) sources.push_back(server);
  };
  std::size_t position = positions_.at(agent);
  if (hosts_[position] != agent) add(position);
  while (position > 0) {
    position = (position - 1) / k_fan_out;
    add(position);
  }
  return sources;
}

}  // namespace ddprun::staging
