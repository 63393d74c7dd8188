#include "agent/link_settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/job_store.hpp"
#include "allocation/asked_tasks.hpp"
#include "allocation/schedulers/job_end.hpp"
#include "lifecycle/after_success.hpp"
#include "os/process/reaper.hpp"
#include "peers/authenticators.hpp"
#include "peers/discovery.hpp"
#include "plan/gpu_count.hpp"
#include "plan/launch_nodes.hpp"
#include "plan/master_variables.hpp"
#include "plan/rendezvous_plan.hpp"
#include "render/render_plan.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/handshake.hpp"
#include "rendezvous/host_limits.hpp"
#include "version_number.hpp"

namespace ddprun::agent {

namespace {

constexpr int k_successor_ports = 8;
constexpr int k_relay_ports = 8;  // number for other doors too
constexpr Milliseconds k_refusal_patience{30000};
constexpr Milliseconds k_stop_margin{15000};  // beyond the grace, for the last kill and the way back

net::LinkLimit link_limit(const options::Options& options, plan::RendezvousRole role) {
  const Milliseconds limit = options.host_timeout.value;
  if (!options::outlives_nodes(options)) return limit;
  const bool member = role == plan::RendezvousRole::member;
  return {member ? rendezvous::member_limit(limit) : limit, /*by_silence=*/true};
}

std::optional<rendezvous::ElasticNodes> elastic_of(const plan::NodeProposal& node) {
  const options::Options& options = node.options;
  if (!options::outlives_nodes(options)) return std::nullopt;
  rendezvous::ElasticNodes elastic;
  elastic.spares = options.spares.value;
  elastic.least = options.least_nodes ? options.least_nodes->value : node.rendezvous.agents - elastic.spares;
  elastic.grow = options.grow.value;
  elastic.last_call = options.last_call.value;
  return elastic;
}

std::optional<rendezvous::CheckpointSettings> checkpoints_of(const plan::NodeProposal& node) {
  const options::CheckpointOptions& options = node.options.checkpoint;
  if (!options.memory) return std::nullopt;
  rendezvous::CheckpointSettings settings;
  settings.flush = options.flush;
  settings.flush_every = options.flush_every;
  const Sourced<Milliseconds> grace = allocation::end_grace(node.allocation.scheduler.value, {});
  if (!grace.origin.empty()) settings.kill_after = grace.value;
  return settings;
}

// Returns the ports of the site's range, which it has, for this purpose.
std::vector<int> site_ports(const plan::NodeProposal& node, const std::string& purpose) {
  return plan::make_port_sequence(node.rendezvous.key + purpose, k_relay_ports,
                                  {node.site.profile.ports->first, node.site.profile.ports->second});
}

// Returns the candidates for MASTER_ADDR, best first: the user's choice, else this host's addresses.
std::vector<std::string> own_addresses(const plan::NodeProposal& node, const facts::Snapshot& snapshot) {
  if (node.options.local_address) return {node.options.local_address->value};
  if (node.rendezvous.role == plan::RendezvousRole::solo) return {node.solo_address.value};
  return peers::crossing_addresses(site::prefer_site_interfaces(snapshot.host.addresses, node.site));
}

// Returns the ports to bind, best first. If the members can learn the port another way, any port will do in
// the end.
std::vector<int> ports_to_bind(const plan::NodeProposal& node) {
  const plan::RendezvousPlan& rendezvous = node.rendezvous;
  std::vector<int> ports = rendezvous.ports.value;
  if (node.allocation.first_port || rendezvous.agents < 2) return ports;
  ports.insert(ports.end(), rendezvous.spare_ports.begin(), rendezvous.spare_ports.end());
  if (rendezvous.key_value_space != allocation::KeyValueSpace::none ||
      !rendezvous.rendezvous_file.value.empty())
    ports.push_back(0);
  return ports;
}

}  // namespace

bool can_succeed(const plan::NodeProposal& node) {
  return options::outlives_nodes(node.options) && node.rendezvous.agents > 1 &&
         node.options.store != options::StoreHost::worker;
}

std::vector<int> successor_ports(const plan::NodeProposal& node) {
  if (const auto first = node.allocation.first_port) {
    std::vector<int> ports;
    for (int i = 1; i <= k_successor_ports; ++i) ports.push_back(first->value + k_port_span - i);
    return ports;
  }
  plan::PortRange range;
  if (node.site.profile.ports) range = {node.site.profile.ports->first, node.site.profile.ports->second};
  std::vector<int> ports =
      plan::make_port_sequence(node.rendezvous.key + "/successor", k_successor_ports, range);
  ports.push_back(0);
  return ports;
}

std::vector<int> door_ports(const plan::NodeProposal& node, const std::string& purpose) {
  std::vector<int> ports = node.site.profile.ports ? site_ports(node, purpose) : std::vector<int>();
  ports.push_back(0);
  return ports;
}

std::vector<int> relay_ports(const plan::NodeProposal& node) {
  std::vector<int> ports;
  if (const auto first = node.allocation.first_port) {  // below those for a successor
    for (int i = 1; i <= k_relay_ports; ++i)
      ports.push_back(first->value + k_port_span - k_successor_ports - i);
  }
  ports.push_back(0);
  if (!node.site.profile.ports) return ports;
  return site_ports(node, "/store");
}

checkpoints::CheckpointSettings make_checkpoint_settings(const plan::NodeProposal& node) {
  const options::CheckpointOptions& options = node.options.checkpoint;
  checkpoints::CheckpointSettings settings;
  if (!options.memory) return settings;
  const int here = std::max(node.allocation.tasks_here.value, 1);
  settings.memory = options.memory->value / static_cast<std::uint64_t>(here);
  settings.place = options.folder;
  settings.rate = options.rate;
  settings.flush = options.flush;
  settings.keep = options.keep;
  settings.flush_key = allocation::job_key(node.allocation);
  settings.job = options.keep ? settings.flush_key : os::make_random_id();
  settings.agent = node.rendezvous.agent.value;
  settings.launch_key = node.rendezvous.key;
  if (node.rendezvous.agents > 1) settings.ports = door_ports(node, "/checkpoints");
  return settings;
}

plan::Announcement make_announcement(const plan::NodeProposal& node, const facts::Snapshot& snapshot,
                                     const OwnDoors& doors, const workers::WorkerGroup& workers) {
  const bool per_task = node.allocation.style.value == allocation::LaunchStyle::agent_per_task;
  plan::Announcement self;
  const bool unnumbered = node.rendezvous.by_arrival && node.rendezvous.role == plan::RendezvousRole::member;
  if (!unnumbered) self.agent = node.rendezvous.agent;
  self.host = node.host;
  self.pid = static_cast<int>(::getpid());
  self.successor_port = doors.successor_port;
  self.relay_port = doors.relay_port;
  self.stage_door = doors.stage;
  self.checkpoint_door = doors.checkpoint;
  self.network = node.network.own;
  self.node = allocation::node_rank_of(node.allocation).value;
  if (node.allocation.numbered_by_launcher) self.launcher_rank = GlobalRank{node.allocation.task_rank.value};
  self.style_assumed = node.allocation.style_assumed;
  self.workers = node.workers.value;
  self.counted = node.options.workers.kind != options::WorkersKind::number && !per_task;
  self.for_tasks = node.for_tasks;
  const bool tells_tasks = node.rendezvous.role == plan::RendezvousRole::coordinator &&
                           allocation::asks_for_several(node.allocation);
  if (tells_tasks) self.asked_tasks = allocation::write_asked_tasks(node.allocation.asked_tasks->value);
  // Cut off, it would be wrong.
  if (self.asked_tasks.size() > rendezvous::k_max_text) self.asked_tasks.clear();
  if (node.rendezvous.agents > 1) self.missing_gpus = node.missing_gpus;
  self.role = node.options.role.value;
  self.max_restarts = node.options.max_restarts.value;
  if (options::outlives_nodes(node.options)) self.host_timeout = node.options.host_timeout.value;
  if (per_task) {
    self.fixed_rank = GlobalRank{node.allocation.task_rank.value};
    self.first_local_rank = node.allocation.task_local.value;
  }
  self.addresses =
      peers::crossing_addresses(site::prefer_site_interfaces(snapshot.host.addresses, node.site));
  if (node.options.local_address)
    self.addresses.insert(self.addresses.begin(), node.options.local_address->value);
  self.cpus = plan::announced_cpus(node, snapshot);
  self.local_workers = plan::announced_workers(node, snapshot);
  // The Python is of use for the other hosts, and for the store, which a single worker hosts itself.
  const bool of_use = node.rendezvous.agents > 1 || node.offered.size() > 1;
  if (of_use) self.python = workers.python();
  return self;
}

net::CoordinatorServiceSettings make_coordinator_settings(
    const plan::NodeProposal& node, const facts::Snapshot& snapshot, plan::Announcement announcement,
    const std::optional<rendezvous::LaunchFailure>& failure, bool records) {
  const plan::RendezvousPlan& rendezvous = node.rendezvous;
  net::CoordinatorServiceSettings settings;
  settings.announcement = std::move(announcement);
  settings.failure = failure;
  settings.coordinator.agents = rendezvous.agents;
  settings.coordinator.elastic = elastic_of(node);
  settings.coordinator.independent = node.options.several_programs;
  settings.coordinator.by_network = options::orders_by_network(node.options);
  settings.coordinator.domain_size = node.options.domain_size.value;
  settings.coordinator.replace_after = node.options.check.replace_after.value;
  if (plan::may_be_started_again(node)) settings.coordinator.return_timeout = rendezvous.join_timeout;
  settings.coordinator.succession = can_succeed(node);
  settings.coordinator.peers = rendezvous.peers;
  // The names of members are unknown before they join.
  if (plan::is_by_flags(node.allocation)) settings.coordinator.peers.assign(rendezvous.peers.size(), {});
  settings.coordinator.version = DDPRUN_VERSION;
  settings.coordinator.run_id = node.run_id.value;
  settings.coordinator.launch_id = os::make_random_id();
  settings.coordinator.nodes = plan::expect_nodes(node.allocation, node.options.place, snapshot);
  settings.coordinator.record = records;
  settings.coordinator.live = snapshot.host.stderr_is_terminal;
  settings.coordinator.connects = node.options.store == options::StoreHost::agent && !node.offered.empty() &&
                                  lifecycle::starts_python(node.offered.front().command);
  if (node.options.store == options::StoreHost::agent && settings.announcement.relay_port > 0)
    settings.coordinator.store_fan_out = node.options.store_tree.fan_out;
  settings.coordinator.hang = node.options.hang;
  settings.coordinator.checkpoints = checkpoints_of(node);
  if (!node.options.command.empty()) settings.coordinator.program = node.options.command.front();
  settings.coordinator.grace = node.options.shutdown_timeout.value;
  settings.coordinator.max_restarts = node.options.max_restarts.value;
  settings.coordinator.restarts = node.options.restarts;
  settings.coordinator.time_limit = node.options.time_limit;
  settings.coordinator.join_timeout = rendezvous.join_timeout;
  settings.coordinator.stop_timeout = node.options.shutdown_timeout.value + k_stop_margin;
  settings.coordinator.looks_at_spares =
      node.options.check.automatic || !node.options.check.command.value.empty();
  if (node.options.check.automatic) settings.coordinator.stop_timeout += node.options.check.release_timeout;
  settings.coordinator.silence = node.options.host_timeout.value;
  settings.coordinator.addresses = own_addresses(node, snapshot);
  settings.coordinator.when_alone = plan::explain_waiting_alone(node);
  if (node.options.local_address) settings.coordinator.named_address = node.options.local_address->value;
  settings.host_timeout = link_limit(node.options, plan::RendezvousRole::coordinator);
  settings.ports = ports_to_bind(node);
  settings.launch_key = rendezvous::with_command(node.rendezvous.key, node.options.command);
  if (node.store_port) settings.port_hint = plan::other_port_hint(node.allocation.first_port);
  if (rendezvous.agents > 1)
    settings.authenticator =
        peers::make_authenticator(node.options, rendezvous.secrets, snapshot, node.allocation.place.value);
  return settings;
}

net::MemberServiceSettings make_member_settings(const plan::NodeProposal& node,
                                                const facts::Snapshot& snapshot,
                                                const plan::Announcement& announcement) {
  net::MemberServiceSettings settings;
  settings.launch_key = rendezvous::with_command(node.rendezvous.key, node.options.command);
  settings.authenticator =
      peers::make_authenticator(node.options, node.rendezvous.secrets, snapshot, node.allocation.place.value);
  settings.announcement = announcement;
  settings.version = DDPRUN_VERSION;
  settings.dial.link = link_limit(node.options, plan::RendezvousRole::member);
  settings.agents = node.rendezvous.agents;
  settings.answer_limit = node.options.shutdown_timeout.value + 2 * k_stop_margin;
  return settings;
}

net::MemberServiceSettings make_first_member_settings(const plan::NodeProposal& node,
                                                      const facts::Snapshot& snapshot,
                                                      const plan::Announcement& announcement) {
  net::MemberServiceSettings settings = make_member_settings(node, snapshot, announcement);
  const plan::RendezvousPlan& rendezvous = node.rendezvous;
  settings.join = {rendezvous.peers.front(),
                   rendezvous.addresses.value,
                   rendezvous.ports.value,
                   rendezvous.join_timeout,
                   rendezvous.rendezvous_file.value,
                   render::key_value_space_name(rendezvous.key_value_space),
                   rendezvous.spare_ports};
  // Node 0 may well be on this host, so this is said only while it does not answer.
  if (const auto doubt = plan::find_misplaced_rank(node, snapshot)) settings.join.doubt = doubt->what;
  settings.join.live = snapshot.host.stderr_is_terminal;
  if (plan::is_by_flags(node.allocation)) settings.join.refusal_patience = k_refusal_patience;
  return settings;
}

rendezvous::CoordinatorPlace place_of(const net::CoordinatorServiceSettings& settings, int port) {
  std::vector<std::string> addresses = settings.coordinator.addresses;
  const std::vector<std::string>& of_this_host = settings.announcement.addresses;
  addresses.insert(addresses.end(), of_this_host.begin(), of_this_host.end());
  rendezvous::CoordinatorPlace place{{}, port};
  for (const std::string& address : addresses) {
    const auto& known = place.addresses;
    if (rendezvous::is_numeric_address(address) &&
        std::find(known.begin(), known.end(), address) == known.end())
      place.addresses.push_back(address);
  }
  if (place.addresses.empty()) place.addresses = {"127.0.0.1"};
  return place;
}

}  // namespace ddprun::agent
