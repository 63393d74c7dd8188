// The run phase: one thread, one io_context, in which the state machines meet processes and sockets.
//
// Nothing is decided here. What a peer says goes to the supervisor or the coordinator, what they decide is
// carried out by the worker group, the store and the link.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/event_log.hpp"
#include "agent/job_store.hpp"
#include "base/error.hpp"
#include "event_loop/signal_watch.hpp"
#include "net/agent_link.hpp"
#include "net/bound_socket.hpp"
#include "net/coordinator_service.hpp"
#include "net/lifeline_client.hpp"
#include "net/member_service.hpp"
#include "net/status_server.hpp"
#include "os/clock.hpp"
#include "peers/discovery.hpp"
#include "plan/launch_plan.hpp"
#include "probes/usage_query.hpp"
#include "rendezvous/membership/next_coordinator.hpp"
#include "streams/output_link.hpp"
#include "supervise/agent_lifecycle.hpp"
#include "supervise/supervisor.hpp"
#include "workers/endings.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

class Driver {
 public:
  // With a failure there is nothing to start: it joins only to tell the other agents, and all end with one
  // message. `expected` is the plan of the share that is expected; its notices have been said.
  Driver(const plan::LaunchPlan& expected, const facts::Snapshot& snapshot, streams::OutputLink& output_link,
         std::optional<rendezvous::LaunchFailure> failure = {});

  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver();

  // Runs the job to its end and returns the exit code.
  int run();

 private:
  void run_handlers();
  void fail(const std::string& why);
  void join();
  void join_as_coordinator();
  net::CoordinatorServiceSettings coordinator_settings() const;
  net::CoordinatorHooks coordinator_hooks();
  std::unique_ptr<net::CoordinatorService> tell_cannot_start(net::CoordinatorServiceSettings settings,
                                                             const Error& error);
  void join_as_member();
  net::MemberServiceSettings member_settings() const;
  net::MemberHooks member_hooks();
  net::MemberService* start_member(net::MemberServiceSettings settings);
  plan::Announcement announcement() const;
  bool can_succeed() const;
  void bind_successor_port();
  bool listen_as_successor();
  void rejoin();
  void take_over();
  void on_coordinator_lost(const std::string& what, const std::string& hint, rendezvous::ConnectionEnd end);
  void publish(const net::CoordinatorServiceSettings& settings, int port);
  void start_coordinator(std::unique_ptr<net::CoordinatorService> service, const plan::Announcement& self);
  void lead_output(std::vector<boost::asio::ip::tcp::socket> sockets, const std::string& why);
  net::StoreOpened open_store(const rendezvous::OpenStore& open);
  void on_message(const rendezvous::CoordinatorMessage& message);
  void announce_restart(const rendezvous::ShowRestart& restart);
  void handle(const rendezvous::Refused& refused);
  void handle(const rendezvous::Probe&) {}  // answered by the link
  void handle(const rendezvous::ClientQuestion& question);
  void handle(const rendezvous::StatusQuestion& question);
  void handle(const rendezvous::Roster& roster);
  void handle(const rendezvous::Start& start);
  void handle(const rendezvous::Standby&);
  void end_warm_up();
  void tell_task_style() const;
  void say_new_notices();
  void step_aside();
  void handle(const rendezvous::Stop& stop);
  void handle(const rendezvous::Finish& finish);
  void on_lost(const std::string& what, const std::string& hint);
  void limit_telling();

  void hold_lifeline();
  void lose_front_end(const std::string& why);
  void watch_remote_launcher();
  void tell_end(std::function<void()> told);
  void watch_signals();
  void on_signal(const os::SignalEvent& event);
  void on_told_signal(const rendezvous::lifeline::Signal& signal);
  void on_verdict(const supervise::SignalLedger::Verdict& verdict);
  void stop_at_key();
  void tell_early_kill() const;

  void serve_status();
  void on_status_asked();
  void show_job(status::JobStatus status);
  void measure_workers(std::function<void(status::NodeStatus)> done);
  void end_status();

  supervise::AgentLifecycle::Workers workers_state() const;
  void carry_out(const supervise::AgentLifecycle::Actions& actions);
  void carry_out(const supervise::life::SayError& action);
  void carry_out(const supervise::life::Say& action);
  void carry_out(const supervise::life::TellFirstStop& action);
  void carry_out(const supervise::life::StopWorkers& action);
  void carry_out(const supervise::life::Judge& action);
  void carry_out(const supervise::life::SendStopRequest& action);
  void carry_out(const supervise::life::SendStopped& action);
  void carry_out(const supervise::life::TakeOutputBack& action);
  void carry_out(const supervise::life::AbandonWorkers& action);
  void carry_out(const supervise::life::EndGathered& action);
  void carry_out(const supervise::life::ReadOutput& action);
  void carry_out(const supervise::life::WriteOutput& action);
  void carry_out(const supervise::life::Rejoin& action);
  void carry_out(const supervise::life::GiveUpOutput& action);
  void carry_out(const supervise::life::Leave& action);
  void end_after_coordinator();
  void decide();
  void decide_soon();
  void carry_out(const supervise::act::Spawn& action);
  void carry_out(const supervise::act::SignalWorker& action);
  void carry_out(const supervise::act::KillGroup& action);
  void carry_out(const supervise::act::SignalDescendants& action);
  void carry_out(const supervise::act::ReportFailure& action);
  void carry_out(const supervise::act::ReportStuck& action);
  void carry_out(const supervise::act::ReportLeftBehind& action);
  void carry_out(const supervise::act::ReportRequest& action);
  void carry_out(const supervise::act::ReportSuccess& action);
  void carry_out(const supervise::act::ReportStopped& action);
  void arm_timer();
  void end_attempt();
  void record(events::Event event);
  void record_begin();
  events::Event event_of(events::EventKind kind, std::size_t worker) const;
  void record_worker(events::EventKind kind, std::size_t worker);
  void record_exit(std::size_t worker, const ExitStatus& status);
  void record_connections(std::size_t connections);
  std::string report(const rendezvous::Finish& finish) const;
  void write_report(const rendezvous::Finish& finish) const;
  void tell_outer_launcher(const supervise::Cause& cause) const;
  void tell_unused_store();
  void tell_start(const plan::Assignment& assignment) const;
  std::string proven_interface(const plan::Assignment& assignment) const;

  std::shared_ptr<const plan::NodeProposal> node_;
  std::shared_ptr<const plan::LaunchPlan> plan_ =
      std::make_shared<const plan::LaunchPlan>();  // of the latest start
  std::vector<allocation::Notice> said_;           // of plans
  const facts::Snapshot& snapshot_;
  streams::OutputLink& output_link_;
  boost::asio::io_context context_;
  event_loop::SignalWatch signals_;
  boost::asio::steady_timer timer_;
  supervise::Supervisor supervisor_;
  JobStore store_;
  EventLog events_;
  workers::WorkerGroup workers_;
  workers::Endings endings_;
  peers::CoordinatorDiscovery discovery_;
  std::unique_ptr<net::AgentLink> link_;
  net::CoordinatorService* coordinator_ = nullptr;  // it is link_; else this is a member
  rendezvous::NextCoordinator next_coordinator_;
  std::optional<plan::Announcement> announced_;
  net::BoundSocket successor_socket_;     // where it listens once the coordinator is lost
  bool listens_ = false;                  // there
  boost::asio::steady_timer turn_timer_;  // until it takes over
  std::optional<net::StatusServer> status_server_;
  std::unique_ptr<probes::UsageQuery> usage_;  // under way
  int usage_child_ = 0;
  std::optional<os::AnsweringChild> warm_up_;  // while others take part
  std::vector<std::function<void(status::NodeStatus)>> measured_for_;
  boost::asio::steady_timer remote_launcher_timer_;
  boost::asio::steady_timer telling_timer_;        // where it only tells a failure
  boost::asio::steady_timer parting_timer_;        // all is done here
  std::unique_ptr<net::LifelineClient> lifeline_;  // where another ddprun started this one

  supervise::AgentLifecycle life_;
  std::optional<rendezvous::LaunchFailure> failure_;
  std::optional<std::string> stop_sender_;  // of the first stop signal, as rendezvous::StopRequest
  int world_size_ = 0;                      // of the workers that this agent's store is for
  bool decision_pending_ = false;
  bool coordinator_ended_ = false;          // after its last message
  bool failed_ = false;                     // a handler threw
  bool stepped_aside_ = false;              // to CPUs that no worker holds
  std::optional<GlobalRank> told_failure_;  // of this attempt
  bool ends_attempt_ = false;               // once the endings are described
  std::int64_t began_ = os::unix_milliseconds();
  std::size_t most_connections_ = 0;  // to the store, in it
};

}  // namespace ddprun::agent
