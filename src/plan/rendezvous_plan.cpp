#include "ddprun/plan/rendezvous_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/error.hpp"
#include "ddprun/plan/ports.hpp"

namespace ddprun {

namespace {

// A member tries one address after the other, with a fifth of a second between them.
constexpr std::size_t k_most_addresses = 33;
constexpr std::size_t k_longest_name = 160;

void number_agents(const Allocation& allocation, const std::string& host, RendezvousPlan& rendezvous) {
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

// "hydra_n1-39175.meet" of "hydra/n1:39175"; as long keys differ at their end, that is what is kept.
std::string meeting_name(const std::string& key) {
  std::string name = key.substr(key.size() - std::min(key.size(), k_longest_name));
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (c == '/') {
      c = '_';
    } else if (!plain && c != '.' && c != '_') {
      c = '-';
    }
  }
  if (name.starts_with('.')) name.front() = '_';
  return name + ".meet";
}

Sourced<std::string> find_meeting_file(const RendezvousPlan& rendezvous, const Options& options,
                                       const Snapshot& snapshot) {
  std::string folder = options.meeting_directory;
  std::string origin = "--rdzv-dir";
  if (folder.empty()) {
    const std::string home = find_variable(snapshot, "HOME").value_or("");
    if (home.empty()) return {};
    folder = home + "/.ddprun";
    origin = "home directory";
  }
  return {folder + "/" + meeting_name(rendezvous.key), origin};
}

// The launcher's exchange costs its later use by MPI programs, so it is for the launches whose workers cannot
// use it anyway: several on a node. PMIx servers go without being asked as little as they can.
void choose_meeting(const Allocation& allocation, const Options& options, const Snapshot& snapshot,
                    RendezvousPlan& rendezvous) {
  if (options.meeting == Meeting::pmi) {
    if (allocation.exchange == Exchange::none) {
      throw UsageError(
          "--rdzv pmi, but no variable shows a PMI or PMIx server here",
          "leave it out, or name a folder that all hosts share with --rdzv file --rdzv-dir FOLDER");
    }
    rendezvous.exchange = allocation.exchange;
    return;
  }
  const bool told = allocation.first_address || allocation.first_known;
  if (options.meeting == Meeting::automatic && told) return;
  const bool per_node = allocation.style.value == LaunchStyle::agent_per_node;
  const bool may_exchange = options.meeting == Meeting::automatic && per_node;
  if (may_exchange && allocation.exchange == Exchange::pmi1) rendezvous.exchange = Exchange::pmi1;
  // Where an assumption proves wrong, nobody exchanges.
  if (rendezvous.exchange == Exchange::none || allocation.style_assumed)
    rendezvous.meeting_file = find_meeting_file(rendezvous, options, snapshot);
}

}  // namespace

RendezvousPlan make_rendezvous_plan(const Allocation& allocation, const Options& options,
                                    const Snapshot& snapshot) {
  RendezvousPlan rendezvous;
  rendezvous.key = launch_key(allocation);
  rendezvous.join_timeout = options.join_timeout.value;
  number_agents(allocation, snapshot.host.name, rendezvous);
  if (rendezvous.agents == 1) return rendezvous;
  rendezvous.role = rendezvous.agent.value == 0 ? RendezvousRole::coordinator : RendezvousRole::member;
  rendezvous.addresses = find_addresses(allocation, rendezvous);
  rendezvous.ports = find_ports(allocation, rendezvous);
  rendezvous.secrets = allocation.secrets;
  choose_meeting(allocation, options, snapshot, rendezvous);
  return rendezvous;
}

}  // namespace ddprun
