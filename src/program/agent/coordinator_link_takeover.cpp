// Loss of the coordinator in a job that continues: the agent joins the next coordinator, or becomes it.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "agent/coordinator_link.hpp"
#include "agent/link_settings.hpp"
#include "base/error.hpp"
#include "console/log.hpp"
#include "net/timers.hpp"
#include "os/clock.hpp"
#include "os/system_failure.hpp"

namespace ddprun::agent {

void CoordinatorLink::bind_successor_port() {
  if (!can_succeed(*plans_.node) || failure_) return;
  for (const int port : successor_ports(*plans_.node)) {
    if (port > 65535) continue;
    successor_socket_ = net::keep_port(port);
    if (successor_socket_.error == 0) return;
  }
  successor_socket_.port = 0;
  console::say_detail("no port is free for coordinating the job, should its coordinator be lost");
}

void CoordinatorLink::note(const rendezvous::Roster& roster) {
  turn_timer_.cancel();
  if (roster.ending) {
    parts_.life.note_job_ends(roster.ending->signal, roster.ending->host);
    hooks_.on_job_ends();
  }
  if (next_coordinator_.note(roster)) link_->send(rendezvous::RosterTaken{roster.number()});
}

// Listens from now on, so that agents that look for the successor wait there.
bool CoordinatorLink::listen_as_successor() {
  if (listens_ || successor_socket_.port == 0) return listens_;
  const int error = net::begin_listening(successor_socket_, boost::asio::socket_base::max_listen_connections);
  listens_ = error == 0;
  if (error != 0) console::say_detail("cannot coordinate the job: " + os::describe_errno(error));
  return listens_;
}

void CoordinatorLink::on_lost(const std::string& what, const std::string& hint,
                              rendezvous::ConnectionEnd end) {
  const auto why = next_coordinator_.note_lost(what, end, listen_as_successor(), os::now());
  if (why) return hooks_.on_lost(*why, *why == what ? hint : "", false);  // it is about this one
  console::say_detail(what + "; looking for the next coordinator");
  hooks_.on_lost(what, hint, true);
}

void CoordinatorLink::rejoin() {
  if (parts_.life.ending()) return;
  link_.reset();
  discovery_.stop_fetching();
  const rendezvous::NextCoordinator::Search search = next_coordinator_.next(os::now());
  net::MemberServiceSettings settings =
      with_own_state(make_member_settings(*plans_.node, parts_.snapshot, *announced_));
  settings.join.successors = search.successors;
  settings.join.join_timeout = search.timeout;
  settings.join.live = parts_.snapshot.host.stderr_is_terminal;
  settings.survivor = next_coordinator_.survivor();
  start_member(std::move(settings));
  net::call_at(turn_timer_, search.takes_over_at, [this] {
    // It may have been too late to cancel this when another one was found.
    if (!parts_.life.ending() && next_coordinator_.is_searching()) take_over();
  });
}

// Becomes the coordinator. The others know where it listens; those that come later look into the rendezvous
// file.
void CoordinatorLink::take_over() {
  auto node = std::make_shared<plan::NodeProposal>(*plans_.node);
  node->rendezvous.role = plan::RendezvousRole::coordinator;
  plans_.node = std::move(node);
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
