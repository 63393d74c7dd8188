// Profiles of the running job: the coordinator keeps nothing of them, it passes on.
#include "profile/rank_profile.hpp"
#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun::rendezvous {

void Coordinator::handle(ConnectionId connection, const ProfileRequest& request, TimePoint) {
  ProfileRequest asked = request;
  asked.asker = connection.value;
  std::vector<std::string> hosts;
  for (const auto& [agent, index] : members_.here()) {
    if (may_run_workers(index)) hosts.push_back(host_of(index));
  }
  const int agents = static_cast<int>(members_.here().size());
  actions_.push_back(SendTo{
      connection, ProfilePart{request.number, asked.asker, agents, false, profile::render_asked(hosts)}});
  for (const auto& [agent, index] : members_.here()) actions_.push_back(SendTo{agent, asked});
}

void Coordinator::handle(ConnectionId, const ProfilePart& part, TimePoint) {
  const ConnectionId asker{part.asker};
  if (!members_.here().contains(asker)) return;
  ProfilePart passed = part;
  passed.agents = 0;
  actions_.push_back(SendTo{asker, std::move(passed)});
}

}  // namespace ddprun::rendezvous
