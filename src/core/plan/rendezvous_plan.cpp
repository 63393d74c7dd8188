#include "plan/rendezvous_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "allocation/hostlist.hpp"
#include "allocation/manual.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/master_variables.hpp"

namespace ddprun::plan {

namespace {

// Reports whether the scheduler's hosts are known by name. Flags alone know none but this one.
bool knows_hosts(const allocation::Allocation& allocation) {
  return !is_by_flags(allocation) && !allocation.numbered_by_launcher && allocation.hosts.value.size() > 1;
}

std::optional<std::size_t> find_named_host(const allocation::Allocation& allocation) {
  if (!allocation.first_address || !knows_hosts(allocation)) return std::nullopt;
  const auto& hosts = allocation.hosts.value;
  const auto found = std::ranges::find_if(hosts, [&](const allocation::Host& host) {
    return same_host(host.name, allocation.first_address->value);
  });
  if (found == hosts.end()) return std::nullopt;
  return static_cast<std::size_t>(found - hosts.begin());
}

// Returns positions in the scheduler's list: the host that the user names coordinates wherever it stands.
std::vector<std::size_t> order_hosts(const allocation::Allocation& allocation) {
  std::vector<std::size_t> order(allocation.hosts.value.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t first = find_named_host(allocation).value_or(0);
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(first),
              order.begin() + static_cast<std::ptrdiff_t>(order.empty() ? 0 : first + 1));
  return order;
}

// Numbers the agents by arrival: the coordinator's name is the only one that is known before the others come.
void number_by_arrival(const allocation::Allocation& allocation, RendezvousPlan& rendezvous) {
  rendezvous.by_arrival = true;
  rendezvous.agents = allocation.task_count.value;
  rendezvous.agent = AgentIndex{allocation.task_rank.value};
  rendezvous.peers.assign(static_cast<std::size_t>(rendezvous.agents), {});
  rendezvous.peers.front() = allocation.first_address->value;
}

void number_agents(const allocation::Allocation& allocation, const std::string& host,
                   RendezvousPlan& rendezvous) {
  if (allocation.numbered_by_arrival) return number_by_arrival(allocation, rendezvous);
  if (allocation.numbered_by_launcher) {
    rendezvous.agents = allocation.task_count.value;
    rendezvous.agent = AgentIndex{allocation.task_rank.value};
    rendezvous.peers.resize(static_cast<std::size_t>(rendezvous.agents));
    rendezvous.peers.at(static_cast<std::size_t>(rendezvous.agent.value)) = host;
    return;
  }
  int before_this_host = 0;
  bool passed = false;
  for (const std::size_t i : order_hosts(allocation)) {
    const allocation::Host& each = allocation.hosts.value[i];
    for (int task = 0; task < each.tasks; ++task) rendezvous.peers.push_back(each.name);
    passed = passed || NodeIndex{static_cast<int>(i)} == allocation.node_index.value;
    if (!passed) before_this_host += each.tasks;
  }
  rendezvous.agents = std::max<int>(1, static_cast<int>(rendezvous.peers.size()));
  rendezvous.agent = AgentIndex{before_this_host + allocation.task_local.value.value};
}

Sourced<std::vector<std::string>> find_known_addresses(const allocation::Allocation& allocation,
                                                       const RendezvousPlan& rendezvous) {
  if (!allocation.numbered_by_launcher && allocation.hosts.value.size() == 1)
    return {{"127.0.0.1", rendezvous.peers.front()}, "all tasks are on this host"};
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

// Returns the addresses to try. The user's address may be right in ways that nothing here can see, so if it
// is none of the hosts' names it is tried first and the host that coordinates beside it.
Sourced<std::vector<std::string>> find_addresses(const allocation::Allocation& allocation,
                                                 const RendezvousPlan& rendezvous) {
  if (!allocation.first_address) return find_known_addresses(allocation, rendezvous);
  const auto& [address, origin, source] = *allocation.first_address;
  if (!knows_hosts(allocation) || find_named_host(allocation)) return {{address}, origin, source};
  auto addresses = find_known_addresses(allocation, rendezvous);
  addresses.value.insert(addresses.value.begin(), address);
  addresses.origin = fmt::format("{}, then {}", origin, addresses.origin);
  return addresses;
}

void choose_ports(RendezvousPlan& rendezvous, const allocation::Allocation& allocation) {
  follow_sequence(rendezvous, {}, "follows from " + rendezvous.key);
  if (allocation.first_port) {
    rendezvous.spare_ports = {rendezvous.ports.value.front()};
    rendezvous.ports = {{allocation.first_port->value}, allocation.first_port->origin};
  } else if (allocation.reserved_ports && !allocation.reserved_ports->value.empty()) {
    // Cray's PMI takes the first of them for itself.
    const auto& reserved = *allocation.reserved_ports;
    rendezvous.ports = {{reserved.value.rbegin(), reserved.value.rend()}, reserved.origin + ", from the end"};
  }
}

// Reports whether the launch has a name of its own. Without one, two launches that start at once cannot be
// told apart: two pbsdsh in one job, torchrun's default id. A step, a launch of mpiexec and an id that the
// user chose are such names; the job's id is not.
bool is_named(const allocation::Allocation& allocation) {
  if (allocation.numbered_by_launcher) return !allocation.launch_id.value.empty();
  const std::string& instance = allocation.instance.value;
  if (!instance.empty() && !allocation.job_id.value.starts_with(instance)) return true;
  return !allocation.step_id.value.empty() || allocation.scheduler.value == facts::Scheduler::none;
}

// Returns a digest of the command, with the working directory unless started by hand: then the directories of
// two hosts may differ, while a scheduler's tasks start in the same one.
std::string digest_of_command(const allocation::Allocation& allocation, const options::Options& options,
                              const facts::Snapshot& snapshot) {
  std::string text = join(options.command, std::string(1, '\0'));
  if (allocation.scheduler.value != facts::Scheduler::manual) text += '\n' + snapshot.working_directory;
  return fmt::format("{:08x}", launch_hash(text) >> 32U);
}

}  // namespace

void follow_sequence(RendezvousPlan& rendezvous, PortRange range, const std::string& origin) {
  const std::vector<int> all = make_port_sequence(rendezvous.key, k_sequence_ports + k_spare_ports, range);
  const auto cut = all.begin() + std::min<std::ptrdiff_t>(k_sequence_ports, std::ssize(all));
  rendezvous.ports = {{all.begin(), cut}, origin};
  rendezvous.spare_ports = {cut, all.end()};
}

RendezvousPlan make_rendezvous_plan(const allocation::Allocation& allocation, const options::Options& options,
                                    const facts::Snapshot& snapshot) {
  const std::string& host = snapshot.host.name;
  RendezvousPlan rendezvous;
  rendezvous.key = allocation::launch_key(allocation);
  rendezvous.join_timeout = options.join_timeout.value;
  number_agents(allocation, host, rendezvous);
  if (rendezvous.agents > 1 && !is_named(allocation))
    rendezvous.key += k_command_mark + digest_of_command(allocation, options, snapshot);
  if (rendezvous.agents == 1) return rendezvous;
  rendezvous.role = rendezvous.agent.value == 0 ? RendezvousRole::coordinator : RendezvousRole::member;
  rendezvous.addresses = find_addresses(allocation, rendezvous);
  try_likely_address_first(rendezvous.addresses, allocation, options.place);
  choose_ports(rendezvous, allocation);
  return rendezvous;
}

bool is_by_flags(const allocation::Allocation& allocation) {
  return allocation.scheduler.value == facts::Scheduler::manual && allocation.launcher.value.empty();
}

int place_among_hosts(const NodeProposal& node) {
  const bool told = !node.allocation.numbered_by_launcher && !node.rendezvous.by_arrival &&
                    node.rendezvous.role != RendezvousRole::solo && node.allocation.node_index.value;
  return told ? node.allocation.node_index.value->value : node.rendezvous.agent.value;
}

int expected_place(const NodeProposal& node) {
  return node.allocation.node_rank ? node.allocation.node_rank->value.value : place_among_hosts(node);
}

namespace {

// Reports whether the name is the host's on another network: n1-ib0 and n1i are n1, but n10 is not.
bool is_by_another_network(const std::string& name, const std::string& host) {
  const std::string_view known = short_host_name(host);
  return to_lower(name).starts_with(to_lower(known)) && name.size() > known.size() &&
         std::isdigit(static_cast<unsigned char>(name[known.size()])) == 0;
}

}  // namespace

std::optional<allocation::Notice> find_foreign_address(const NodeProposal& node,
                                                       const facts::HostFacts& host) {
  const allocation::Allocation& allocation = node.allocation;
  if (node.rendezvous.role != RendezvousRole::coordinator || !allocation.first_address ||
      !knows_hosts(allocation) || find_named_host(allocation))
    return std::nullopt;
  // clang 14 captures no structured binding
  const std::string& address = allocation.first_address->value;
  const std::string& origin = allocation.first_address->origin;
  if (is_by_another_network(address, node.host)) return std::nullopt;
  const bool own = std::ranges::any_of(
      host.addresses, [&](const facts::InterfaceAddress& each) { return each.address == address; });
  if (own) return std::nullopt;
  std::vector<std::string> names;
  for (const allocation::Host& each : allocation.hosts.value) names.push_back(each.name);
  return allocation::Notice{
      fmt::format("{} {} is not a node of this launch ({}), so {} coordinates", origin, address,
                  allocation::compress_hostlist(names), node.host),
      fmt::format("leave {} out; ignore this if it is another name or address of {}", origin, node.host)};
}

std::optional<allocation::Notice> find_coordinator_beside_rank_0(const NodeProposal& node) {
  const allocation::Allocation& allocation = node.allocation;
  const auto named = find_named_host(allocation);
  if (!named || *named == 0 || allocation.node_rank || node.options.store == options::StoreHost::worker)
    return std::nullopt;
  const std::string& first = allocation.hosts.value.front().name;
  const std::string& origin = allocation.first_address->origin;
  return allocation::Notice{
      fmt::format("{} {} makes {} the coordinator: MASTER_ADDR leads there, but rank 0 runs on {}", origin,
                  allocation.first_address->value, allocation.hosts.value[*named].name, first),
      fmt::format("leave {} out, or give {}, for a script that expects rank 0 at MASTER_ADDR", origin,
                  first)};
}

std::optional<allocation::Notice> find_endpoint_in_conf(const options::Options& options) {
  const auto given = options.given.find("rdzv-conf");
  if (given == options.given.end()) return std::nullopt;
  for (const auto& [key, value] : options::parse_rendezvous_conf(given->second.value, given->second.origin)) {
    if (key != "rdzv_endpoint" && key != "endpoint") continue;
    return allocation::Notice{
        fmt::format("{} in {} has no effect", key, given->second.origin),
        fmt::format("give it as an option of its own: --rdzv-endpoint {}", shell_quote(value))};
  }
  return std::nullopt;
}

std::optional<allocation::Notice> find_misplaced_rank(const NodeProposal& node,
                                                      const facts::Snapshot& snapshot) {
  const allocation::Allocation& allocation = node.allocation;
  const allocation::PlaceOptions& place = node.options.place;
  if (!is_by_flags(allocation) || !allocation::is_complete_manual(place)) return std::nullopt;
  const auto& address = place.address ? place.address : place.likely_address;
  if (!address) return std::nullopt;
  const bool own = allocation::is_own_name(address->value, snapshot);
  const bool first = place.node_rank->value == 0;
  if (own == first || is_by_another_network(address->value, node.host)) return std::nullopt;
  const std::string rank = fmt::format("{} {}", place.node_rank->origin, place.node_rank->value);
  const std::string given = fmt::format("{} {}", address->origin, address->value);
  if (first) {
    return allocation::Notice{
        fmt::format(
            "{} makes {} node 0, but {} is not a name or address of it: the other nodes look for node "
            "0 there",
            rank, node.host, given),
        fmt::format(
            "start node 0 on {}, or give an address of {} on every node; ignore this if {} leads to {}",
            address->value, node.host, address->value, node.host)};
  }
  return allocation::Notice{
      fmt::format("{} is {} itself, but {} is not node 0: it waits for a node 0 on its own host", given,
                  node.host, rank),
      fmt::format("give the address of node 0's host; ignore this if node 0 runs on {} too", node.host)};
}

std::optional<allocation::Notice> explain_waiting_alone(const NodeProposal& node) {
  const allocation::Allocation& allocation = node.allocation;
  const allocation::PlaceOptions& place = node.options.place;
  if (!is_by_flags(allocation) || !allocation::is_complete_manual(place) || allocation.job_nodes.value < 2)
    return std::nullopt;
  return allocation::Notice{
      fmt::format("no other node has joined: with {} {} and {} {} ddprun runs on {} only, and a batch script "
                  "runs on the job's first node only",
                  place.nodes->origin, place.nodes->value, place.node_rank->origin, place.node_rank->value,
                  node.host),
      fmt::format("leave out {} and {}: ddprun then starts itself on all nodes of the job",
                  place.nodes->origin, place.node_rank->origin)};
}

namespace {

// Reports whether every agent of the launch knows where the coordinator is.
bool all_told(const allocation::Allocation& allocation) {
  return allocation.first_address.has_value() || allocation.first_known;
}

allocation::KeyValueSpace choose_key_value_space(const allocation::Allocation& allocation,
                                                 const options::Options& options) {
  if (options.discovery == options::Discovery::pmi) {
    if (allocation.key_value_space != allocation::KeyValueSpace::none) return allocation.key_value_space;
    throw UsageError("--rdzv pmi requires a launcher with PMI or PMIx, but its variables show neither",
                     "leave --rdzv out, or use --rdzv file");
  }
  const bool harmless = options.discovery == options::Discovery::automatic &&
                        allocation.key_value_space == allocation::KeyValueSpace::pmi1 &&
                        !all_told(allocation) &&
                        allocation.style.value == allocation::LaunchStyle::agent_per_node;
  return harmless ? allocation::KeyValueSpace::pmi1 : allocation::KeyValueSpace::none;
}

Sourced<std::string> choose_file(const RendezvousPlan& rendezvous, const allocation::Allocation& allocation,
                                 const options::Options& options, const facts::Snapshot& snapshot) {
  const bool asked = options.discovery == options::Discovery::file;
  const bool named = !options.rendezvous_directory.empty();
  const bool useful = options.discovery == options::Discovery::automatic && !allocation.first_address &&
                      (!allocation.first_known || named);
  if (!asked && !useful) return {};
  const std::string home = facts::find_variable(snapshot, "HOME").value_or("");
  if (!named && home.empty()) {
    if (!asked) return {};
    throw UsageError("cannot place the rendezvous file: HOME is not set", "name a folder with --rdzv-dir");
  }
  const std::string folder = named ? options.rendezvous_directory : home + "/.ddprun";
  return {fmt::format("{}/meet.{}.{:016x}", folder, snapshot.host.uid, launch_hash(rendezvous.key)),
          named ? "--rdzv-dir" : "home directory"};
}

// Throws if members could not find the coordinator: without a place to look they would wait until their
// deadline.
void check_findable(const RendezvousPlan& rendezvous, const allocation::Allocation& allocation,
                    const facts::Snapshot& snapshot) {
  const bool told = rendezvous.key_value_space != allocation::KeyValueSpace::none ||
                    !rendezvous.rendezvous_file.value.empty() || !rendezvous.addresses.value.empty();
  if (told) return;
  throw Error(fmt::format("cannot locate the coordinator from {}, one of {} ddprun processes: {} names no "
                          "hosts, and HOME, for a rendezvous file, is not set",
                          snapshot.host.name, rendezvous.agents, allocation.launcher.value),
              "name a folder that all hosts share with --rdzv-dir, or the first host with --master-addr");
}

}  // namespace

void choose_discovery(RendezvousPlan& rendezvous, const allocation::Allocation& allocation,
                      const options::Options& options, const facts::Snapshot& snapshot) {
  if (rendezvous.role == RendezvousRole::solo) return;
  rendezvous.secrets = allocation.secrets;
  rendezvous.key_value_space = choose_key_value_space(allocation, options);
  rendezvous.rendezvous_file = choose_file(rendezvous, allocation, options, snapshot);
  check_findable(rendezvous, allocation, snapshot);
}

namespace {

constexpr int k_torchrun_port = 29500;  // possibly held by another launcher of the same user

std::uint64_t next_of(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

}  // namespace

// Hashes by FNV-1a, which splitmix64 finishes for the ports; std::hash may differ between builds.
std::uint64_t launch_hash(const std::string& launch_key) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : launch_key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::vector<int> make_port_sequence(const std::string& launch_key, int count, PortRange range) {
  const int size = range.last - range.first + 1;
  const bool holds_torchrun = range.first <= k_torchrun_port && k_torchrun_port <= range.last;
  count = std::min(count, holds_torchrun ? size - 1 : size);
  std::vector<int> ports;
  std::uint64_t state = launch_hash(launch_key);
  while (static_cast<int>(ports.size()) < count) {
    const int port = range.first + static_cast<int>(next_of(state) % static_cast<std::uint64_t>(size));
    const bool taken = port == k_torchrun_port || std::ranges::find(ports, port) != ports.end();
    if (!taken) ports.push_back(port);
  }
  return ports;
}

}  // namespace ddprun::plan
