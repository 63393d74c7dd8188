#include "agent/coordinator_link.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <memory>
#include <utility>

#include "agent/link_settings.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "net/agent_listener.hpp"
#include "net/name_lookup.hpp"
#include "net/timers.hpp"
#include "os/clock.hpp"
#include "os/machine/capture_network.hpp"
#include "os/system_failure.hpp"
#include "plan/propose.hpp"

namespace ddprun::agent {

namespace {

void say_port(const plan::NodeProposal& node, int port) {
  const std::vector<int>& wanted = node.rendezvous.ports.value;
  console::say_detail(
      fmt::format("coordinating {} on port {}", count_of(node.rendezvous.agents, "agent"), port));
  if (std::find(wanted.begin(), wanted.end(), port) != wanted.end()) return;
  console::say_notice(
      fmt::format("other programs on {} use all ports of this launch ({}); the rendezvous uses port {}",
                  node.host, fmt::join(wanted, ", "), port),
      "`ss -tlnp` on that node shows the programs that use them");
}

// PortTaken with the process that listens. By hand that is often a second node 0 of the same job.
Error with_port_holder(const Error& error, const std::vector<int>& ports) {
  const std::string& hint = error.hint();
  const std::size_t end = hint.find("; ");
  const bool taken = dynamic_cast<const net::PortTaken*>(&error) != nullptr && end != std::string::npos;
  const auto holder = taken && !ports.empty() ? os::find_port_holder(ports.front()) : std::nullopt;
  if (!holder) return error;
  const std::string rest = hint.substr(end + 2);
  if (!holder->own_program) {
    return Error(error.what(),
                 fmt::format("{} (pid {}) uses the port; {}", printable(holder->name), holder->pid, rest));
  }
  return Error(
      error.what(),
      fmt::format("ddprun with pid {} listens there: nodes of one job on one host need different numbers "
                  "for --node-rank; for another job {}",
                  holder->pid, rest));
}

}  // namespace

CoordinatorLink::CoordinatorLink(boost::asio::io_context& context, Parts parts,
                                 std::optional<rendezvous::LaunchFailure> failure, Hooks hooks)
    : context_(context),
      parts_(parts),
      plans_(parts.plans),
      failure_(std::move(failure)),
      hooks_(std::move(hooks)),
      discovery_(context, parts.plans.node, parts.snapshot),
      next_coordinator_(parts.plans.node->options.host_timeout.value),
      turn_timer_(context) {}

void CoordinatorLink::send_if_linked(rendezvous::AgentMessage message) {
  if (link_ && parts_.life.linked()) link_->send(std::move(message));
}

bool CoordinatorLink::ask(rendezvous::AgentMessage question) {
  if (!link_ || !parts_.life.reaches_coordinator()) return false;
  link_->send(std::move(question));
  return true;
}

std::string CoordinatorLink::coordinator_host() const {
  return next_coordinator_.is_told() ? next_coordinator_.host() : plans_.node->rendezvous.peers.front();
}

OwnDoors CoordinatorLink::own_doors() const {
  return {successor_socket_.port, failure_ ? 0 : parts_.local_store.listen(), parts_.stage_door,
          parts_.checkpoints.door()};
}

net::CoordinatorServiceSettings CoordinatorLink::coordinator_settings() const {
  plan::Announcement self =
      announced_ ? *announced_
                 : make_announcement(*plans_.node, parts_.snapshot, own_doors(), parts_.workers);
  net::CoordinatorServiceSettings settings = make_coordinator_settings(
      *plans_.node, parts_.snapshot, std::move(self), failure_, parts_.events.wanted());
  settings.checkpoints = parts_.checkpoints.held();
  return settings;
}

net::MemberServiceSettings CoordinatorLink::with_own_state(net::MemberServiceSettings settings) const {
  if (plans_.node->options.output.gather && !parts_.output.linked())
    settings.output_streams = parts_.workers.outputs().count();
  settings.checkpoints = parts_.checkpoints.held();
  return settings;
}

void CoordinatorLink::join() {
  if (plans_.node->rendezvous.role == plan::RendezvousRole::member) return join_as_member();
  if (!plans_.node->rendezvous.by_arrival) return join_as_coordinator();
  try {
    join_as_coordinator();
  } catch (const net::PortTaken& taken) {
    // The port is taken by another agent of this host, since several were started here: that one coordinates.
    console::say_detail(fmt::format("{}; joining the agent that listens there", taken.what()));
    plans_.node = std::make_shared<const plan::NodeProposal>(plan::propose_as_member(*plans_.node));
    join_as_member();
  }
}

net::CoordinatorHooks CoordinatorLink::coordinator_hooks() {
  net::CoordinatorHooks hooks;
  hooks.open_store = [this](const rendezvous::OpenStore& open) { return hooks_.open_store(open); };
  hooks.close_store = [this](Attempt) { parts_.store.close(); };
  hooks.show_status = [this](const std::string& text) {
    if (text.empty() || parts_.workers.at_line_start()) console::show_status(text);
  };
  hooks.show_restart = [this](const rendezvous::ShowRestart& restart) { hooks_.show_restart(restart); };
  hooks.on_message = [this](const rendezvous::CoordinatorMessage& message) { hooks_.on_message(message); };
  hooks.judge_client = [this](const rendezvous::ClientVerdict& verdict) { parts_.store.judge(verdict); };
  hooks.show_hang = [this](const status::Verdict& verdict) { hooks_.show_hang(verdict); };
  hooks.show_notice = [](const allocation::Notice& notice) { console::say_notice(notice); };
  hooks.show_detail = console::say_detail;
  hooks.on_link = [this](int socket, bool open) { parts_.workers.note_link(socket, open); };
  hooks.record = [this](const events::Event& event) { parts_.events.record(event); };
  hooks.on_output = [this](const rendezvous::lifeline::Output& output, boost::asio::ip::tcp::socket socket,
                           const std::string& begun) {
    parts_.workers.add_gathered(output, os::Fd(socket.release()), begun);
  };
  hooks.on_end = [this](const report::Cause&) {
    parts_.life.note_told_all();
    hooks_.on_told_all();
  };
  if (plans_.node->store_port && plans_.node->rendezvous.agents > 1) {
    hooks.on_foreign = [this](boost::asio::ip::tcp::socket& socket, std::string& first_bytes) {
      return parts_.store.adopt(socket, first_bytes);
    };
  }
  return hooks;
}

void CoordinatorLink::join_as_coordinator() {
  net::CoordinatorServiceSettings settings = coordinator_settings();
  const plan::Announcement self = settings.announcement;
  std::unique_ptr<net::CoordinatorService> service;
  try {
    service = std::make_unique<net::CoordinatorService>(context_, settings, coordinator_hooks());
    if (plans_.node->rendezvous.agents > 1) {
      say_port(*plans_.node, service->port());
      publish(settings, service->port());
    }
  } catch (const Error& error) {
    if (service || plans_.node->rendezvous.by_arrival) throw;
    const Error told = with_port_holder(error, settings.ports);
    service = tell_cannot_start(std::move(settings), told);
    if (!service) throw told;
  }
  parts_.events.record_job_begin();
  start_coordinator(std::move(service), self);
}

void CoordinatorLink::publish(const net::CoordinatorServiceSettings& settings, int port) {
  const rendezvous::CoordinatorPlace place = place_of(settings, port);
  settings.coordinator.takeover ? discovery_.publish_anew(place) : discovery_.publish(place);
  if (const os::RendezvousFile* const file = discovery_.file()) parts_.workers.remove_at_end(*file);
}

void CoordinatorLink::start_coordinator(std::unique_ptr<net::CoordinatorService> service,
                                        const plan::Announcement& self) {
  parts_.store.note_torch(self.python.torch);
  parts_.store.when_remote(
      [asked = service.get()](const rendezvous::ClientQuestion& question) { asked->ask_about(question); });
  service->start();
  coordinator_ = service.get();
  link_ = std::move(service);
  parts_.life.note_coordinates();
  parts_.life.note_joined();
}

// Reports that this agent cannot start, although the port that the user named is taken: the others try
// another one too, and hear it there. Returns nullptr if that is taken too, or there is none.
std::unique_ptr<net::CoordinatorService> CoordinatorLink::tell_cannot_start(
    net::CoordinatorServiceSettings settings, const Error& error) {
  if (!plans_.node->allocation.first_port || plans_.node->rendezvous.spare_ports.empty()) return nullptr;
  settings.ports = plans_.node->rendezvous.spare_ports;
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

void CoordinatorLink::join_as_member() {
  bind_successor_port();
  announced_ = make_announcement(*plans_.node, parts_.snapshot, own_doors(), parts_.workers);
  net::MemberServiceSettings settings =
      with_own_state(make_first_member_settings(*plans_.node, parts_.snapshot, *announced_));
  settings.failure = failure_;
  const plan::Announcement& self = settings.announcement;
  const bool has_first_rank = self.fixed_rank ? self.fixed_rank == GlobalRank{0} : self.node == NodeIndex{0};
  if (plans_.node->options.store == options::StoreHost::worker && has_first_rank) {
    settings.announcement.store_ports = parts_.store.keep_ports(plans_.node->options.max_restarts.value + 1);
  }
  discovery_.fetch([member = start_member(std::move(settings))](const net::ToldPlace& told) {
    member->on_key_value_space(told);
  });
}

net::MemberHooks CoordinatorLink::member_hooks() {
  net::MemberHooks hooks;
  hooks.on_joined = [this](const std::string& address, int port) {
    turn_timer_.cancel();
    next_coordinator_.note_joined(address, port);
    parts_.life.note_found();
  };
  hooks.on_link = [this](int socket, bool open) { parts_.workers.note_link(socket, open); };
  hooks.on_silence = [this](const std::string& coordinator, std::optional<Milliseconds> silence) {
    tell_silence(coordinator, silence);
  };
  hooks.on_output = [this](std::vector<boost::asio::ip::tcp::socket> sockets, const std::string& why) {
    lead_output(std::move(sockets), why);
  };
  hooks.start_lookup = [](const std::string& name) {
    auto child = std::make_shared<net::NameLookupChild>(name);
    return net::NameLookup{child->descriptor(), child};
  };
  hooks.look_at_rendezvous_file = [this] { return discovery_.look(); };
  hooks.on_message = [this](const rendezvous::CoordinatorMessage& message) {
    parts_.life.note_joined();
    hooks_.on_message(message);
  };
  hooks.on_lost = [this](const std::string& what, const std::string& hint, rendezvous::ConnectionEnd end) {
    on_lost(what, hint, end);
  };
  hooks.on_coordinator_ended = [this] { hooks_.on_coordinator_ended(); };
  hooks.show_status = [](const std::string& text) { console::show_status(text); };
  hooks.show_detail = console::say_detail;
  return hooks;
}

net::MemberService* CoordinatorLink::start_member(net::MemberServiceSettings settings) {
  parts_.life.note_told_all();  // only the coordinator has others to tell
  auto service = std::make_unique<net::MemberService>(context_, std::move(settings), member_hooks());
  net::MemberService* const member = service.get();
  member->start();
  link_ = std::move(service);
  return member;
}

// Reports that the coordinator does not answer, or answers again: as a notice from one agent only. The reaper
// of the coordinator reports the reason.
void CoordinatorLink::tell_silence(const std::string& coordinator,
                                   std::optional<Milliseconds> silence) const {
  const std::string what =
      silence ? fmt::format("the coordinator {} has not answered for {}", coordinator,
                            describe_duration(std::chrono::floor<std::chrono::seconds>(*silence)))
              : fmt::format("the coordinator {} answers again", coordinator);
  if (plans_.node->rendezvous.agent.value != 1) return console::say_detail(what);
  console::say_notice(what, silence
                                ? "ps on that host shows the state of ddprun: T is stopped, and kill -CONT "
                                  "continues it; D waits for a file system or a driver"
                                : "");
}

void CoordinatorLink::lead_output(std::vector<boost::asio::ip::tcp::socket> sockets, const std::string& why) {
  if (sockets.empty()) {
    return console::say_notice(fmt::format("cannot forward the output of {}: {}", plans_.node->host, why),
                               "it appears where ddprun was started on that host");
  }
  std::vector<os::Fd> streams;
  for (auto& socket : sockets) streams.emplace_back(socket.release());
  parts_.output.lead(streams);
  parts_.workers.outputs().pumps().reopen();
}

// Loss of the coordinator in a job that continues: the agent joins the next coordinator, or becomes it.

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
