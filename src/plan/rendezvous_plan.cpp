#include "ddprun/plan/rendezvous_plan.hpp"

#include <algorithm>

#include "ddprun/plan/ports.hpp"

namespace ddprun {

RendezvousPlan make_rendezvous_plan(const Allocation& allocation, const Options& options) {
  RendezvousPlan rendezvous;
  rendezvous.key = launch_key(allocation);
  rendezvous.join_timeout = options.join_timeout.value;
  int before_this_host = 0;
  const auto& hosts = allocation.hosts.value;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (int task = 0; task < hosts[i].tasks; ++task) rendezvous.peers.push_back(hosts[i].name);
    if (static_cast<int>(i) < allocation.node_index.value.value) before_this_host += hosts[i].tasks;
  }
  rendezvous.agents = std::max<int>(1, static_cast<int>(rendezvous.peers.size()));
  rendezvous.agent = AgentIndex{before_this_host + allocation.task_local.value.value};
  if (rendezvous.agents == 1) return rendezvous;

  rendezvous.role = rendezvous.agent.value == 0 ? RendezvousRole::coordinator : RendezvousRole::member;
  if (allocation.first_address) {
    rendezvous.addresses = {{allocation.first_address->value}, allocation.first_address->origin};
  } else {
    rendezvous.addresses = {{rendezvous.peers.front()}, allocation.hosts.origin + ", first host"};
  }
  if (allocation.first_port) {
    rendezvous.ports = {{allocation.first_port->value}, allocation.first_port->origin};
  } else if (allocation.reserved_ports && !allocation.reserved_ports->value.empty()) {
    // Cray's PMI takes the first of them for itself.
    rendezvous.ports = {allocation.reserved_ports->value,
                        allocation.reserved_ports->origin + ", from the end"};
    std::reverse(rendezvous.ports.value.begin(), rendezvous.ports.value.end());
  } else {
    rendezvous.ports = {make_port_sequence(rendezvous.key), "follows from " + rendezvous.key};
  }
  return rendezvous;
}

}  // namespace ddprun
