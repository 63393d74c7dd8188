// How a driver comes to its link: what it announces, and the service of its role with the driver behind it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "agent/driver.hpp"
#include "base/error.hpp"
#include "console/log.hpp"
#include "net/agent_listener.hpp"
#include "net/member_service.hpp"
#include "os/libraries/name_lookup.hpp"
#include "os/process/reaper.hpp"
#include "peers/authenticators.hpp"
#include "peers/own_addresses.hpp"
#include "plan/announced.hpp"
#include "plan/local_address.hpp"
#include "plan/master_variables.hpp"
#include "plan/propose.hpp"
#include "plan/rendezvous_plan.hpp"
#include "render/render_plan.hpp"
#include "rendezvous/host_limits.hpp"
#include "supervise/store_use.hpp"
#include "version_number.hpp"

namespace ddprun::agent {

namespace {

constexpr Milliseconds k_refusal_patience{30000};
constexpr Milliseconds k_silent_telling{2000};
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

// What MASTER_ADDR may become, best first: the user's word, else this host's addresses.
std::vector<std::string> own_addresses(const plan::NodeProposal& node, const facts::Snapshot& snapshot) {
  if (node.options.local_address) return {node.options.local_address->value};
  if (node.rendezvous.role == plan::RendezvousRole::solo) return {node.solo_address.value};
  return peers::crossing_addresses(site::prefer_site_interfaces(snapshot.host.addresses, node.site));
}

// Where to knock, for members that are told so: numbers only, the best addresses first. Without a network
// there are members on this host at most.
rendezvous::CoordinatorPlace place_of(std::vector<std::string> addresses,
                                      const std::vector<std::string>& of_this_host, int port) {
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

// Best first. Where the members can be told another way, any port will do in the end.
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

void say_port(const plan::NodeProposal& node, int port) {
  const std::vector<int>& wanted = node.rendezvous.ports.value;
  console::say_detail(fmt::format("coordinating {} agents on port {}", node.rendezvous.agents, port));
  if (std::find(wanted.begin(), wanted.end(), port) != wanted.end()) return;
  console::say_notice(
      fmt::format("other programs on {} use all ports of this launch ({}); the rendezvous uses port {}",
                  node.host, fmt::join(wanted, ", "), port),
      "`ss -tlnp` on that node shows the programs that use them");
}

}  // namespace

// A person who types the same line on several hosts reads on each what is wrong with it, and does not wait
// for long; hosts that a scheduler starts together meet before that.
void Driver::limit_telling() {
  telling_timer_.expires_after(k_silent_telling);
  telling_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) carry_out(life_.on_not_heard());
  });
}

void Driver::join() {
  if (failure_) limit_telling();
  if (node_->rendezvous.role == plan::RendezvousRole::member) return join_as_member();
  if (!node_->rendezvous.by_arrival) return join_as_coordinator();
  try {
    join_as_coordinator();
  } catch (const net::PortTaken& taken) {
    // By another agent of this host, as several were started here: that one coordinates.
    console::say_detail(fmt::format("{}; joining the agent that listens there", taken.what()));
    node_ = std::make_shared<const plan::NodeProposal>(plan::propose_as_member(*node_));
    join_as_member();
  }
}

plan::Announcement Driver::announcement() const {
  const bool per_task = node_->allocation.style.value == allocation::LaunchStyle::agent_per_task;
  plan::Announcement self;
  const bool unnumbered =
      node_->rendezvous.by_arrival && node_->rendezvous.role == plan::RendezvousRole::member;
  if (!unnumbered) self.agent = node_->rendezvous.agent;
  self.host = node_->host;
  self.successor_port = successor_socket_.port;
  self.node = allocation::node_rank_of(node_->allocation).value;
  if (node_->allocation.numbered_by_launcher)
    self.launcher_rank = GlobalRank{node_->allocation.task_rank.value};
  self.style_assumed = node_->allocation.style_assumed;
  self.workers = node_->workers.value;
  self.counted = node_->options.workers.kind != options::WorkersKind::number && !per_task;
  if (node_->rendezvous.agents > 1) self.missing_gpus = node_->missing_gpus;
  self.role = node_->options.role.value;
  self.max_restarts = node_->options.max_restarts.value;
  if (options::outlives_nodes(node_->options)) self.host_timeout = node_->options.host_timeout.value;
  if (per_task) {
    self.fixed_rank = GlobalRank{node_->allocation.task_rank.value};
    self.first_local_rank = node_->allocation.task_local.value;
  }
  self.addresses =
      peers::crossing_addresses(site::prefer_site_interfaces(snapshot_.host.addresses, node_->site));
  if (node_->options.local_address)
    self.addresses.insert(self.addresses.begin(), node_->options.local_address->value);
  self.cpus = plan::announced_cpus(*node_, snapshot_);
  self.local_workers = plan::announced_workers(*node_, snapshot_);
  // For the other hosts, and for the store, which a single worker hosts itself.
  const bool of_use = node_->rendezvous.agents > 1 || node_->offered.size() > 1;
  if (of_use) self.python = workers_.python();
  return self;
}

net::CoordinatorServiceSettings Driver::coordinator_settings() const {
  const plan::RendezvousPlan& rendezvous = node_->rendezvous;
  net::CoordinatorServiceSettings settings;
  settings.announcement = announced_ ? *announced_ : announcement();
  settings.failure = failure_;
  settings.coordinator.agents = rendezvous.agents;
  settings.coordinator.elastic = elastic_of(*node_);
  settings.coordinator.succession = can_succeed();
  settings.coordinator.peers = rendezvous.peers;
  // Nobody knows their names before they join.
  if (plan::is_by_flags(node_->allocation)) settings.coordinator.peers.assign(rendezvous.peers.size(), {});
  settings.coordinator.version = DDPRUN_VERSION;
  settings.coordinator.run_id = node_->run_id.value;
  settings.coordinator.launch_id = os::make_random_id();
  settings.coordinator.nodes = plan::expect_nodes(node_->allocation, node_->options.place, snapshot_);
  settings.coordinator.record = events_.wanted();
  settings.coordinator.live = snapshot_.host.stderr_is_terminal;
  settings.coordinator.connects = node_->options.store == options::StoreHost::agent &&
                                  !node_->offered.empty() &&
                                  supervise::starts_python(node_->offered.front().command);
  settings.coordinator.grace = node_->options.shutdown_timeout.value;
  settings.coordinator.max_restarts = node_->options.max_restarts.value;
  settings.coordinator.restarts = node_->options.restarts;
  settings.coordinator.join_timeout = rendezvous.join_timeout;
  settings.coordinator.stop_timeout = node_->options.shutdown_timeout.value + k_stop_margin;
  settings.coordinator.addresses = own_addresses(*node_, snapshot_);
  settings.coordinator.when_alone = plan::explain_waiting_alone(*node_);
  if (node_->options.local_address) settings.coordinator.named_address = node_->options.local_address->value;
  settings.host_timeout = link_limit(node_->options, plan::RendezvousRole::coordinator);
  settings.ports = ports_to_bind(*node_);
  settings.launch_key = rendezvous.key;
  if (node_->store_port) settings.port_hint = plan::other_port_hint(node_->allocation.first_port);
  if (rendezvous.agents > 1)
    settings.authenticator = peers::make_authenticator(node_->options, rendezvous.secrets, snapshot_);
  return settings;
}

net::CoordinatorHooks Driver::coordinator_hooks() {
  net::CoordinatorHooks hooks;
  hooks.open_store = [this](const rendezvous::OpenStore& open) { return open_store(open); };
  hooks.close_store = [this](Attempt) { store_.close(); };
  hooks.show_status = [this](const std::string& text) {
    if (text.empty() || workers_.at_line_start()) console::show_status(text);
  };
  hooks.show_restart = [this](const rendezvous::ShowRestart& restart) { announce_restart(restart); };
  hooks.on_message = [this](const rendezvous::CoordinatorMessage& message) { on_message(message); };
  hooks.judge_client = [this](const rendezvous::ClientVerdict& verdict) { store_.judge(verdict); };
  hooks.show_job = [this](status::JobStatus status) { show_job(std::move(status)); };
  hooks.show_notice = [](const allocation::Notice& notice) { console::say_notice(notice.what, notice.hint); };
  hooks.show_detail = console::say_detail;
  hooks.record = [this](const events::Event& event) { record(event); };
  hooks.on_output = [this](const rendezvous::lifeline::Output& output, boost::asio::ip::tcp::socket socket,
                           const std::string& begun) {
    workers_.add_gathered(output.stream, os::Fd(socket.release()), begun);
  };
  hooks.on_end = [this](const supervise::Cause&) {
    life_.note_told_all();
    carry_out(life_.on_workers(workers_state()));
  };
  if (node_->store_port && node_->rendezvous.agents > 1) {
    hooks.on_foreign = [this](boost::asio::ip::tcp::socket& socket, std::string& first_bytes) {
      return store_.adopt(socket, first_bytes);
    };
  }
  return hooks;
}

void Driver::join_as_coordinator() {
  net::CoordinatorServiceSettings settings = coordinator_settings();
  const plan::Announcement self = settings.announcement;
  std::unique_ptr<net::CoordinatorService> service;
  try {
    service = std::make_unique<net::CoordinatorService>(context_, settings, coordinator_hooks());
    if (node_->rendezvous.agents > 1) {
      say_port(*node_, service->port());
      publish(settings, service->port());
    }
  } catch (const Error& error) {
    if (service || node_->rendezvous.by_arrival) throw;
    service = tell_cannot_start(std::move(settings), error);
    if (!service) throw;
  }
  record_begin();
  start_coordinator(std::move(service), self);
}

void Driver::publish(const net::CoordinatorServiceSettings& settings, int port) {
  const auto place = place_of(settings.coordinator.addresses, settings.announcement.addresses, port);
  settings.coordinator.takeover ? discovery_.publish_anew(place) : discovery_.publish(place);
  if (const os::RendezvousFile* const file = discovery_.file()) workers_.remove_at_end(*file);
}

void Driver::start_coordinator(std::unique_ptr<net::CoordinatorService> service,
                               const plan::Announcement& self) {
  store_.note_torch(self.python.torch);
  store_.when_remote(
      [asked = service.get()](const rendezvous::ClientQuestion& question) { asked->ask_about(question); });
  service->start();
  coordinator_ = service.get();
  link_ = std::move(service);
  life_.note_coordinates();
  life_.note_joined();
}

// The port that the user named is taken. The others knock at another one too, and hear it there. Nothing
// where that is taken too, or there is none.
std::unique_ptr<net::CoordinatorService> Driver::tell_cannot_start(net::CoordinatorServiceSettings settings,
                                                                   const Error& error) {
  if (!node_->allocation.first_port || node_->rendezvous.spare_ports.empty()) return nullptr;
  settings.ports = node_->rendezvous.spare_ports;
  settings.coordinator.cannot_start = error.what() + (error.hint().empty() ? "" : "; " + error.hint());
  std::unique_ptr<net::CoordinatorService> service;
  try {
    service = std::make_unique<net::CoordinatorService>(context_, std::move(settings), coordinator_hooks());
  } catch (const Error&) {
    return nullptr;
  }
  console::say_error(error.what(), error.hint());
  return service;
}

void Driver::join_as_member() {
  bind_successor_port();
  announced_ = announcement();
  const plan::RendezvousPlan& rendezvous = node_->rendezvous;
  net::MemberServiceSettings settings = member_settings();
  settings.join = {rendezvous.peers.front(),
                   rendezvous.addresses.value,
                   rendezvous.ports.value,
                   rendezvous.join_timeout,
                   rendezvous.rendezvous_file.value,
                   render::key_value_space_name(rendezvous.key_value_space),
                   rendezvous.spare_ports};
  settings.join.live = snapshot_.host.stderr_is_terminal;
  if (plan::is_by_flags(node_->allocation)) settings.join.refusal_patience = k_refusal_patience;
  settings.failure = failure_;
  const plan::Announcement& self = settings.announcement;
  const bool has_first_rank = self.fixed_rank ? self.fixed_rank == GlobalRank{0} : self.node == NodeIndex{0};
  if (node_->options.store == options::StoreHost::worker && has_first_rank) {
    settings.announcement.store_ports = store_.keep_ports(node_->options.max_restarts.value + 1);
  }
  discovery_.fetch([member = start_member(std::move(settings))](const net::ToldPlace& told) {
    member->on_key_value_space(told);
  });
}

net::MemberServiceSettings Driver::member_settings() const {
  net::MemberServiceSettings settings;
  settings.launch_key = node_->rendezvous.key;
  settings.authenticator = peers::make_authenticator(node_->options, node_->rendezvous.secrets, snapshot_);
  settings.announcement = *announced_;
  settings.version = DDPRUN_VERSION;
  settings.dial.link = link_limit(node_->options, plan::RendezvousRole::member);
  settings.agents = node_->rendezvous.agents;
  if (node_->options.output.gather && !output_link_.linked()) settings.output_streams = workers_.outputs();
  settings.answer_limit = node_->options.shutdown_timeout.value + 2 * k_stop_margin;
  return settings;
}

net::MemberHooks Driver::member_hooks() {
  net::MemberHooks hooks;
  hooks.on_joined = [this](const std::string& address, int port) {
    turn_timer_.cancel();
    next_coordinator_.note_joined(address, port);
    life_.note_found();
  };
  hooks.on_output = [this](std::vector<boost::asio::ip::tcp::socket> sockets, const std::string& why) {
    lead_output(std::move(sockets), why);
  };
  hooks.start_lookup = [](const std::string& name) {
    auto child = std::make_shared<os::NameLookupChild>(name);
    return net::NameLookup{child->descriptor(), child};
  };
  hooks.look_at_rendezvous_file = [this] { return discovery_.look(); };
  hooks.on_message = [this](const rendezvous::CoordinatorMessage& message) {
    life_.note_joined();
    on_message(message);
  };
  hooks.on_lost = [this](const std::string& what, const std::string& hint, rendezvous::ConnectionEnd end) {
    on_coordinator_lost(what, hint, end);
  };
  hooks.on_coordinator_ended = [this] {
    coordinator_ended_ = true;
    parting_timer_.cancel();
  };
  hooks.show_status = [](const std::string& text) { console::show_status(text); };
  hooks.show_detail = console::say_detail;
  return hooks;
}

net::MemberService* Driver::start_member(net::MemberServiceSettings settings) {
  life_.note_told_all();  // only the coordinator has others to tell
  auto service = std::make_unique<net::MemberService>(context_, std::move(settings), member_hooks());
  net::MemberService* const member = service.get();
  member->start();
  link_ = std::move(service);
  return member;
}

void Driver::lead_output(std::vector<boost::asio::ip::tcp::socket> sockets, const std::string& why) {
  if (sockets.empty()) {
    return console::say_notice(fmt::format("cannot forward the output of {}: {}", node_->host, why),
                               "it appears where ddprun was started on that host");
  }
  std::vector<os::Fd> streams;
  for (auto& socket : sockets) streams.emplace_back(socket.release());
  output_link_.lead(streams);
  workers_.reopen_outputs();
}

}  // namespace ddprun::agent
