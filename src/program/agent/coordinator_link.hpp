// Connection of an agent to its coordinator, in either role.
// It joins as its plan says. When the coordinator is lost and the job continues, it joins the next one or
// becomes it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/job_files.hpp"
#include "agent/job_store.hpp"
#include "agent/link_settings.hpp"
#include "agent/local_store.hpp"
#include "checkpoints/checkpoint_keeper.hpp"
#include "facts/snapshot.hpp"
#include "lifecycle/agent_lifecycle.hpp"
#include "net/connection.hpp"
#include "net/coordinator_service.hpp"
#include "net/member_service.hpp"
#include "net/tcp_tools.hpp"
#include "peers/discovery.hpp"
#include "rendezvous/membership/member_session.hpp"
#include "streams/output_link.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

class CoordinatorLink {
 public:
  struct Parts {  // owned by the agent; they outlive this
    Plans& plans;
    const facts::Snapshot& snapshot;
    workers::WorkerGroup& workers;
    JobStore& store;
    LocalStore& local_store;
    EventRecorder& events;
    lifecycle::AgentLifecycle& life;
    streams::OutputLink& output;
    const std::string& stage_door;
    const checkpoints::CheckpointKeeper& checkpoints;
  };
  struct Hooks {
    std::function<net::StoreOpened(const rendezvous::OpenStore&)> open_store;
    std::function<void(const rendezvous::CoordinatorMessage&)> on_message;
    std::function<void(const rendezvous::ShowRestart&)> show_restart;
    std::function<void(const status::Verdict&)> show_hang;
    std::function<void(const std::string& what, const std::string& hint, bool may_rejoin)> on_lost;
    std::function<void()> on_job_ends;           // all are asked to stop for good
    std::function<void()> on_told_all;           // this coordinator has told all others of the end
    std::function<void()> on_coordinator_ended;  // after its last message
  };
  // Makes a link that, with a failure, joins only to report it.
  CoordinatorLink(boost::asio::io_context& context, Parts parts,
                  std::optional<rendezvous::LaunchFailure> failure, Hooks hooks);

  void join();
  void rejoin();  // once no worker runs any more
  void note(const rendezvous::Roster& roster);
  void send(rendezvous::AgentMessage message) { link_->send(std::move(message)); }
  // Sends the message, or drops it if there is no coordinator at the moment.
  void send_if_linked(rendezvous::AgentMessage message);
  bool ask(rendezvous::AgentMessage question);  // false: no coordinator can be asked now

  bool coordinates() const { return coordinator_ != nullptr; }
  net::CoordinatorService* coordinator() const { return coordinator_; }  // nullptr: it is elsewhere
  // Returns the coordinator's host, as far as this agent knows it.
  std::string coordinator_host() const;
  // Returns this host's end of the connection to that address of the coordinator.
  std::string local_end(const std::string& address) const { return link_->local_end(address); }
  void finish() { discovery_.finish(); }  // once no worker of ours runs any more; may take a second

 private:
  void join_as_coordinator();
  void join_as_member();
  OwnDoors own_doors() const;
  net::CoordinatorServiceSettings coordinator_settings() const;
  net::CoordinatorHooks coordinator_hooks();
  net::MemberServiceSettings with_own_state(net::MemberServiceSettings settings) const;
  net::MemberHooks member_hooks();
  net::MemberService* start_member(net::MemberServiceSettings settings);
  void start_coordinator(std::unique_ptr<net::CoordinatorService> service, const plan::Announcement& self);
  std::unique_ptr<net::CoordinatorService> tell_cannot_start(net::CoordinatorServiceSettings settings,
                                                             const Error& error);
  void publish(const net::CoordinatorServiceSettings& settings, int port);
  void tell_silence(const std::string& coordinator, std::optional<Milliseconds> silence) const;
  void lead_output(std::vector<boost::asio::ip::tcp::socket> sockets, const std::string& why);
  void bind_successor_port();
  bool listen_as_successor();
  void take_over();
  void on_lost(const std::string& what, const std::string& hint, rendezvous::ConnectionEnd end);

  boost::asio::io_context& context_;
  Parts parts_;
  Plans& plans_;
  std::optional<rendezvous::LaunchFailure> failure_;
  Hooks hooks_;
  peers::CoordinatorDiscovery discovery_;
  std::unique_ptr<net::AgentLink> link_;
  net::CoordinatorService* coordinator_ = nullptr;  // link_ if that is a coordinator; nullptr: a member
  rendezvous::NextCoordinator next_coordinator_;
  std::optional<plan::Announcement> announced_;
  net::BoundSocket successor_socket_;     // listens once the coordinator is lost
  bool listens_ = false;                  // there
  boost::asio::steady_timer turn_timer_;  // until it takes over
};

}  // namespace ddprun::agent
