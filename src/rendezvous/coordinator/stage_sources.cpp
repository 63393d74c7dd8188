#include "rendezvous/coordinator/stage_sources.hpp"

#include <utility>

#include "base/text.hpp"
#include "rendezvous/coordinator_place.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr std::size_t k_addresses = 4;

}  // namespace

void StageSources::add(AgentIndex agent, const plan::Announcement& announced) {
  staging::Server server{printable(announced.host), announced.stage_door, {}};
  for (const std::string& address : announced.addresses) {
    if (server.addresses.size() < k_addresses && is_address(address)) server.addresses.push_back(address);
  }
  places_[agent] = servers_.size();
  servers_.push_back(std::move(server));
}

void StageSources::build(AgentIndex root) {
  const auto found = places_.find(root);
  if (found != places_.end()) tree_.emplace(servers_, found->second);
}

std::vector<staging::Server> StageSources::of(AgentIndex agent) const {
  const auto found = places_.find(agent);
  return tree_ && found != places_.end() ? tree_->sources_of(found->second) : std::vector<staging::Server>{};
}

}  // namespace ddprun::rendezvous
