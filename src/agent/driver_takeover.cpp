// What a driver does when the coordinator is lost and the job goes on: it joins the next one, or becomes it.
#include <fmt/format.h>

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <utility>

#include "agent/driver.hpp"
#include "base/error.hpp"
#include "console/log.hpp"
#include "os/clock.hpp"
#include "os/system_failure.hpp"
#include "plan/ports.hpp"

namespace ddprun::agent {

namespace {

constexpr int k_successor_ports = 8;

// Where the others know to look, as roster.hpp tells them; the last of those that a user's firewall is open
// for, as the store begins with the first.
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

}  // namespace

// A worker that hosts the store keeps ports on its own host alone.
bool Driver::can_succeed() const {
  return options::outlives_nodes(node_->options) && node_->rendezvous.agents > 1 &&
         node_->options.store != options::StoreHost::worker;
}

void Driver::bind_successor_port() {
  if (!can_succeed() || failure_) return;
  for (const int port : successor_ports(*node_)) {
    if (port > 65535) continue;
    successor_socket_ = net::keep_port(port);
    if (successor_socket_.error == 0) return;
  }
  successor_socket_.port = 0;
  console::say_detail("no port is free for coordinating the job, should its coordinator be lost");
}

void Driver::handle(const rendezvous::Roster& roster) {
  turn_timer_.cancel();
  if (roster.ending) life_.note_job_ends(roster.ending->signal, roster.ending->host);
  if (next_coordinator_.note(roster)) link_->send(rendezvous::RosterTaken{roster.number()});
}

// From now on, so that those that look for it wait there.
bool Driver::listen_as_successor() {
  if (listens_ || successor_socket_.port == 0) return listens_;
  const int error = net::begin_listening(successor_socket_, boost::asio::socket_base::max_listen_connections);
  listens_ = error == 0;
  if (error != 0) console::say_detail("cannot coordinate the job: " + os::describe_errno(error));
  return listens_;
}

void Driver::on_coordinator_lost(const std::string& what, const std::string& hint,
                                 rendezvous::ConnectionEnd end) {
  const auto why = next_coordinator_.note_lost(what, end, listen_as_successor(), os::now());
  if (why) return on_lost(*why, *why == what ? hint : "");  // it is about this one
  console::say_detail(what + "; looking for the next coordinator");
  carry_out(life_.on_lost(what, hint, true));
}

void Driver::rejoin() {
  if (life_.ending()) return;
  link_.reset();
  discovery_.stop_fetching();
  const rendezvous::NextCoordinator::Search search = next_coordinator_.next(os::now());
  net::MemberServiceSettings settings = member_settings();
  settings.join.successors = search.successors;
  settings.join.join_timeout = search.timeout;
  settings.join.live = snapshot_.host.stderr_is_terminal;
  settings.survivor = next_coordinator_.survivor();
  start_member(std::move(settings));
  if (!search.takes_over_at) return;
  turn_timer_.expires_at(*search.takes_over_at);
  turn_timer_.async_wait([this](const boost::system::error_code& error) {
    // It may have been too late to cancel this when another one was found.
    if (!error && !life_.ending() && next_coordinator_.is_searching()) take_over();
  });
}

// The others know where it listens; those that come later look into the rendezvous file.
void Driver::take_over() {
  auto node = std::make_shared<plan::NodeProposal>(*node_);
  node->rendezvous.role = plan::RendezvousRole::coordinator;
  node_ = std::move(node);
  net::CoordinatorServiceSettings settings = coordinator_settings();
  next_coordinator_.inherit(settings.coordinator);
  settings.survivor = next_coordinator_.survivor();
  settings.bound = std::exchange(successor_socket_, {});
  console::say_detail(fmt::format("coordinating the job on port {}", settings.bound->port));
  auto service = std::make_unique<net::CoordinatorService>(context_, settings, coordinator_hooks());
  try {
    publish(settings, service->port());
  } catch (const Error& error) {
    console::say_notice(error.what(), error.hint());
  }
  start_coordinator(std::move(service), settings.announcement);
}

}  // namespace ddprun::agent
