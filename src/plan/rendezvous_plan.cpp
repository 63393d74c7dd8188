#include "ddprun/plan/rendezvous_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/text.hpp"
#include "ddprun/plan/master_variables.hpp"
#include "ddprun/plan/ports.hpp"

namespace ddprun {

namespace {

// A member tries one address after the other, with a fifth of a second between them.
constexpr std::size_t k_most_addresses = 33;

// The coordinator's name is the only one that anybody knows before the others come.
void number_by_arrival(const Allocation& allocation, RendezvousPlan& rendezvous) {
  rendezvous.by_arrival = true;
  rendezvous.agents = allocation.task_count.value;
  rendezvous.agent = AgentIndex{allocation.task_rank.value};
  rendezvous.peers.assign(static_cast<std::size_t>(rendezvous.agents), {});
  rendezvous.peers.front() = allocation.first_address->value;
}

void number_agents(const Allocation& allocation, const std::string& host, RendezvousPlan& rendezvous) {
  if (allocation.numbered_by_arrival) return number_by_arrival(allocation, rendezvous);
  if (allocation.numbered_by_launcher) {
    rendezvous.agents = allocation.task_count.value;
    rendezvous.agent = AgentIndex{allocation.task_rank.value};
    rendezvous.peers.resize(static_cast<std::size_t>(rendezvous.agents));
    rendezvous.peers.at(static_cast<std::size_t>(rendezvous.agent.value)) = host;
    return;
  }
  int before_this_host = 0;
  const auto& hosts = allocation.hosts.value;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (int task = 0; task < hosts[i].tasks; ++task) rendezvous.peers.push_back(hosts[i].name);
    if (static_cast<int>(i) < allocation.node_index.value.value) before_this_host += hosts[i].tasks;
  }
  rendezvous.agents = std::max<int>(1, static_cast<int>(rendezvous.peers.size()));
  rendezvous.agent = AgentIndex{before_this_host + allocation.task_local.value.value};
}

Sourced<std::vector<std::string>> find_addresses(const Allocation& allocation,
                                                 const RendezvousPlan& rendezvous) {
  if (allocation.first_address) return {{allocation.first_address->value}, allocation.first_address->origin};
  if (!allocation.numbered_by_launcher)
    return {{rendezvous.peers.front()}, allocation.hosts.origin + ", first host"};
  Sourced<std::vector<std::string>> addresses;
  for (const auto& hint : allocation.first_hints) {
    if (addresses.value.size() == k_most_addresses) break;
    if (addresses.value.empty()) addresses.origin = hint.origin;
    addresses.value.push_back(hint.value);
  }
  return addresses;
}

Sourced<std::vector<int>> find_ports(const Allocation& allocation, const RendezvousPlan& rendezvous) {
  if (allocation.first_port) return {{allocation.first_port->value}, allocation.first_port->origin};
  if (allocation.reserved_ports && !allocation.reserved_ports->value.empty()) {
    // Cray's PMI takes the first of them for itself.
    const auto& reserved = *allocation.reserved_ports;
    return {{reserved.value.rbegin(), reserved.value.rend()}, reserved.origin + ", from the end"};
  }
  return {make_port_sequence(rendezvous.key), "follows from " + rendezvous.key};
}

// Nothing else tells two launches apart that start at once: two pbsdsh in one job, torchrun's default id. A
// step, a launch of mpiexec and an id that the user chose are names of their own; the job's id is none.
bool is_named(const Allocation& allocation) {
  if (allocation.numbered_by_launcher) return !allocation.launch_id.value.empty();
  const std::string& instance = allocation.instance.value;
  if (!instance.empty() && !allocation.job_id.value.starts_with(instance)) return true;
  return !allocation.step_id.value.empty() || allocation.scheduler.value == Scheduler::none;
}

// By hand the directories of two hosts may differ; a scheduler's tasks start in the same one.
std::string digest_of_command(const Allocation& allocation, const Options& options,
                              const Snapshot& snapshot) {
  std::string text = join(options.command, std::string(1, '\0'));
  if (allocation.scheduler.value != Scheduler::by_hand) text += '\n' + snapshot.working_directory;
  return fmt::format("{:08x}", launch_hash(text) >> 32U);
}

}  // namespace

RendezvousPlan make_rendezvous_plan(const Allocation& allocation, const Options& options,
                                    const Snapshot& snapshot) {
  const std::string& host = snapshot.host.name;
  RendezvousPlan rendezvous;
  rendezvous.key = launch_key(allocation);
  rendezvous.join_timeout = options.join_timeout.value;
  number_agents(allocation, host, rendezvous);
  if (rendezvous.agents > 1 && !is_named(allocation))
    rendezvous.key += k_command_mark + digest_of_command(allocation, options, snapshot);
  if (rendezvous.agents == 1) return rendezvous;
  rendezvous.role = rendezvous.agent.value == 0 ? RendezvousRole::coordinator : RendezvousRole::member;
  rendezvous.addresses = find_addresses(allocation, rendezvous);
  try_likely_address_first(rendezvous.addresses, allocation, options.place);
  rendezvous.ports = find_ports(allocation, rendezvous);
  return rendezvous;
}

}  // namespace ddprun
