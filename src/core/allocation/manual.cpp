#include "allocation/manual.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

// torchrun's defaults: --master-port, and the c10d rendezvous' endpoint.
constexpr int k_static_port = 29500;
constexpr int k_c10d_port = 29400;

int node_count(const PlaceOptions& options) { return options.nodes ? options.nodes->value : 1; }

void check_node_rank(const PlaceOptions& options) {
  const int nodes = node_count(options);
  if (!options.node_rank) return;
  const auto& rank = *options.node_rank;
  if (rank.value >= 0 && rank.value < nodes) return;
  const std::string count = options.nodes ? fmt::format("{} {}", options.nodes->origin, nodes)
                                          : std::string("one node (no --nnodes)");
  throw UsageError(fmt::format("{} {} is out of range for {}", rank.origin, rank.value, count),
                   "node ranks are 0 to --nnodes - 1");
}

// Returns the rank of this node. If none is given, the node with the coordinator's address is the first.
Sourced<std::optional<NodeIndex>> find_node_rank(const PlaceOptions& options,
                                                 const facts::Snapshot& snapshot) {
  if (options.node_rank) return {NodeIndex{options.node_rank->value}, options.node_rank->origin};
  if (!is_own_name(options.address->value, snapshot)) return {std::nullopt, "order of arrival"};
  return {NodeIndex{0}, "has the address of " + options.address->origin};
}

Sourced<int> default_port(const Sourced<std::string>& address) {
  return by_default(address.source == Source::endpoint ? k_c10d_port : k_static_port);
}

}  // namespace

bool is_manual(const PlaceOptions& options) {
  return node_count(options) > 1 || (options.node_rank && options.node_rank->value != 0);
}

bool is_complete_manual(const PlaceOptions& options) {
  return node_count(options) > 1 && options.node_rank.has_value();
}

void apply_coordinator_flags(const PlaceOptions& options, Allocation& allocation) {
  allocation.first_address = options.address;
  if (!options.port) return;
  if (options.port->value < 0 || options.port->value > 65535) {
    throw UsageError(fmt::format("{} {} is not a port", options.port->origin, options.port->value),
                     "ports are 1 to 65535");
  }
  if (options.port->value != 0) allocation.first_port = options.port;
}

bool is_loopback_name(std::string_view address) {
  return to_lower(address) == "localhost" || address.substr(0, 4) == "127." || address == "::1";
}

bool is_own_address(const std::string& address, const facts::HostFacts& host) {
  return is_loopback_name(address) || same_host(address, host.name) ||
         std::any_of(host.addresses.begin(), host.addresses.end(),
                     [&](const facts::InterfaceAddress& each) { return each.address == address; });
}

bool is_own_name(const std::string& name, const facts::Snapshot& snapshot) {
  if (is_own_address(name, snapshot.host)) return true;
  const auto found = snapshot.names.find(name);
  if (found == snapshot.names.end()) return false;
  const std::vector<std::string> addresses = split_words(found->second);
  return std::any_of(addresses.begin(), addresses.end(), [&](const std::string& address) {
    return !is_loopback_name(address) && is_own_address(address, snapshot.host);
  });
}

std::string name_to_look_up(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  const auto& address = options.address ? options.address : options.likely_address;
  const bool numbered = options.node_rank && options.node_rank->value != 0;
  if (!address || options.standalone || numbered || node_count(options) < 2) return {};
  const bool numeric = address->value.find_first_not_of("0123456789.") == std::string::npos ||
                       address->value.find(':') != std::string::npos;
  return numeric || is_own_address(address->value, snapshot.host) ? std::string() : address->value;
}

Allocation parse_manual(const facts::Snapshot& snapshot, const PlaceOptions& given) {
  PlaceOptions options = given;
  if (!options.address) options.address = options.likely_address;
  const int nodes = node_count(options);
  if (nodes > static_cast<int>(k_max_hosts)) {
    throw UsageError(fmt::format("{} {} is more than {} nodes", options.nodes->origin, nodes, k_max_hosts));
  }
  check_node_rank(options);  // without --nnodes none but 0 is in range
  Allocation allocation;
  if (!options.address) {
    throw UsageError(fmt::format("{} {} requires the address of node 0", options.nodes->origin, nodes),
                     "add --master-addr HOST or --rdzv-endpoint HOST:PORT, the same on every node");
  }
  allocation.node_index = find_node_rank(options, snapshot);
  allocation.numbered_by_arrival = !options.node_rank;
  const std::string& origin = options.nodes->origin;
  allocation.scheduler = sourced(facts::Scheduler::manual, origin);
  allocation.style = sourced(LaunchStyle::agent_per_node, origin);
  if (options.run_id) allocation.instance = *options.run_id;
  allocation.restart_count = by_default(0);
  allocation.hosts.origin = origin;
  for (int node = 0; node < nodes; ++node)
    allocation.hosts.value.push_back({fmt::format("node {}", node), 1});
  const bool numbered = allocation.node_index.value.has_value();
  const int own = numbered ? allocation.node_index.value->value : 1;
  if (numbered) allocation.hosts.value[static_cast<std::size_t>(own)].name = snapshot.host.name;
  allocation.task_count = sourced(nodes, origin);
  allocation.task_rank = sourced(own, allocation.node_index.origin);
  allocation.task_local = sourced(LocalRank{0}, "one ddprun per node");
  apply_coordinator_flags(options, allocation);
  if (options.port && options.port->value == 0) {
    throw UsageError(fmt::format("{} 0 needs a single node", options.port->origin),
                     "give a port, the same on every node, or leave it out");
  }
  if (!allocation.first_port) allocation.first_port = default_port(*options.address);
  return allocation;
}

Allocation make_alone(const facts::Snapshot& snapshot, const PlaceOptions& options,
                      const std::string& origin) {
  Allocation allocation;
  allocation.scheduler = sourced(facts::Scheduler::none, "no scheduler detected");
  allocation.style = sourced(LaunchStyle::alone, origin);
  allocation.instance =
      sourced(fmt::format("{}.{}", snapshot.host.name, snapshot.host.pid), "host and process");
  allocation.restart_count = by_default(0);
  allocation.hosts = sourced(std::vector<Host>{{snapshot.host.name, 1}}, "host name");
  allocation.node_index = {NodeIndex{0}, origin};
  allocation.task_count = sourced(1, origin);
  allocation.task_rank = sourced(0, origin);
  allocation.task_local = sourced(LocalRank{0}, origin);
  apply_coordinator_flags(options, allocation);
  return allocation;
}

}  // namespace ddprun::allocation
