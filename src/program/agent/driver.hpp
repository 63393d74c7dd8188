// The run phase: one thread, one io_context, in which the state machines meet processes and sockets.
//
// Nothing is decided here. What a peer says goes to the supervisor or the coordinator, what they decide is
// carried out by the worker group, the store and the link.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <string>
#include <vector>

#include "agent/coordinator_link.hpp"
#include "agent/front_end_link.hpp"
#include "agent/hang_search.hpp"
#include "agent/job_end_watch.hpp"
#include "agent/job_files.hpp"
#include "agent/job_store.hpp"
#include "agent/link_settings.hpp"
#include "agent/local_store.hpp"
#include "agent/node_look.hpp"
#include "agent/stage_keeper.hpp"
#include "agent/standby_keeper.hpp"
#include "agent/status_service.hpp"
#include "agent/user_commands.hpp"
#include "checkpoints/checkpoint_keeper.hpp"
#include "event_loop/signal_watch.hpp"
#include "lifecycle/agent_lifecycle.hpp"
#include "lifecycle/supervisor.hpp"
#include "os/clock.hpp"
#include "os/process/helper_child.hpp"
#include "plan/finalise.hpp"
#include "probes/grace_search.hpp"
#include "profiling/profile_service.hpp"
#include "streams/output_link.hpp"
#include "traces/trace_looks.hpp"
#include "workers/endings.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

class Driver {
 public:
  // Makes the driver of one agent. With a failure there is nothing to start: it joins only to report it to
  // the other agents, and all end with one message. `expected` is the plan of the share that is expected; its
  // notices have been shown. `look`: what was seen of this node.
  Driver(const plan::LaunchPlan& expected, const facts::Snapshot& snapshot, streams::OutputLink& output_link,
         std::optional<rendezvous::LaunchFailure> failure = {}, probes::StartLook look = {});

  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver();

  // Runs the job to its end and returns the exit code.
  int run();

 private:
  void run_handlers();
  void fail(const std::string& why);
  CoordinatorLink::Hooks link_hooks();
  void on_worker_ended(std::size_t worker, const ExitStatus& status);
  net::StoreOpened open_store(const rendezvous::OpenStore& open);
  void on_message(const rendezvous::CoordinatorMessage& message);
  void handle(const rendezvous::Refused& refused);
  void handle(const rendezvous::Probe&) {}  // answered by the link
  void handle(const rendezvous::AliveQuestion& question);
  void handle(const rendezvous::ClientQuestion& question);
  void handle(const rendezvous::StatusQuestion& question);
  void handle(const rendezvous::NodeShown& shown) { status_.note(shown); }
  void handle(const rendezvous::JobShown& shown) { status_.show(shown); }
  void handle(const rendezvous::RestartReply& reply) { restarts_.note(reply); }
  void handle(const rendezvous::Look& look);
  void handle(const rendezvous::ProfileRequest& request) { profiles_.take(request); }
  void handle(const rendezvous::ProfilePart& part) { profiles_.note(part); }
  void handle(const rendezvous::ClockReply& reply) { traces_.note(reply); }
  void handle(const rendezvous::CheckpointOrder& message) { checkpoints_.take(message.order); }
  void handle(const rendezvous::Roster& roster) { link_.note(roster); }
  void handle(const rendezvous::Start& start);
  void on_staged();
  void start_held();
  bool begin_checkpoints(const rendezvous::Start& start);
  checkpoints::CheckpointKeeper::Hooks checkpoint_hooks();
  void handle(const rendezvous::Standby& standby);
  void handle(const rendezvous::Modules& modules) { standbys_.note(modules); }
  void end_warm_up();
  void tell_task_style() const;
  void say_new_notices();
  void step_aside();
  void handle(const rendezvous::Warn& warn);
  void handle(const rendezvous::Stop& stop);
  void handle(const rendezvous::Finish& finish);
  void on_lost(const std::string& what, const std::string& hint);
  void limit_telling();

  void lose_front_end(const std::string& why);
  void watch_signals();
  bool is_program() const;
  void on_signal(const os::SignalEvent& event);
  void on_told_signal(const rendezvous::lifeline::Signal& signal);
  void on_verdict(const lifecycle::SignalLedger::Verdict& verdict);
  void stop_at_key();
  void ask_for_grace();
  void tell_early_kill() const;

  void on_status_asked(bool stacks);
  void show_hang(const status::Verdict& verdict);

  lifecycle::AgentLifecycle::Workers workers_state() const;
  void carry_out(const lifecycle::AgentLifecycle::Actions& actions);
  void carry_out(const lifecycle::life::SayError& action);
  void carry_out(const lifecycle::life::Say& action);
  void carry_out(const lifecycle::life::TellFirstStop& action);
  void carry_out(const lifecycle::life::StopWorkers& action);
  void carry_out(const lifecycle::life::Judge& action);
  void carry_out(const lifecycle::life::SendStopRequest& action);
  void carry_out(const lifecycle::life::SendStopped& action);
  void carry_out(const lifecycle::life::SendStuck& action);
  void carry_out(const lifecycle::life::TakeOutputBack& action);
  void carry_out(const lifecycle::life::AbandonWorkers& action);
  void carry_out(const lifecycle::life::EndGathered& action);
  void carry_out(const lifecycle::life::ReadOutput& action);
  void carry_out(const lifecycle::life::WriteOutput& action);
  void carry_out(const lifecycle::life::Rejoin& action);
  void carry_out(const lifecycle::life::GiveUpOutput& action);
  void carry_out(const lifecycle::life::Leave& action);
  void part(std::optional<Milliseconds> limit);
  void end_after_coordinator();
  void decide();
  void decide_soon();
  void carry_out(const lifecycle::act::Spawn& action);
  void carry_out(const lifecycle::act::SignalWorker& action);
  void carry_out(const lifecycle::act::ContinueWorker& action);
  void carry_out(const lifecycle::act::LookWhereTheyAre& action);
  void carry_out(const lifecycle::act::KillGroup& action);
  void carry_out(const lifecycle::act::SignalDescendants& action);
  void carry_out(const lifecycle::act::ReportFailure& action);
  void carry_out(const lifecycle::act::ReportStuck& action);
  void carry_out(const lifecycle::act::ReportLeftBehind& action);
  void carry_out(const lifecycle::act::ReportRequest& action);
  void carry_out(const lifecycle::act::ReportSuccess& action);
  void carry_out(const lifecycle::act::ReportStopped& action);
  void arm_timer();
  void end_attempt();
  void tell_unused_store();
  void explain_end(rendezvous::Finish& finish) const;
  JobEndWatch::Hooks job_end_hooks();
  void tell_start(const plan::Assignment& assignment) const;
  std::string proven_interface(const plan::Assignment& assignment) const;

  Plans plans_;
  std::vector<allocation::Notice> said_;  // notices of plans that were shown already
  const facts::Snapshot& snapshot_;
  streams::OutputLink& output_link_;
  boost::asio::io_context context_;
  event_loop::SignalWatch signals_;
  boost::asio::steady_timer timer_;
  lifecycle::Supervisor supervisor_;
  JobStore store_;
  LocalStore local_store_;
  workers::WorkerGroup workers_;
  JobFiles files_;
  EventRecorder events_;
  workers::Endings endings_;
  boost::asio::steady_timer telling_timer_;  // limit for reporting a failure that came before the start
  boost::asio::steady_timer parting_timer_;  // wait at the end for the coordinator's process to exit first
  lifecycle::AgentLifecycle life_;
  std::int64_t began_ = os::unix_milliseconds();
  StageKeeper stage_;
  std::optional<rendezvous::Start> held_start_;  // start held back until copies and checkpoints are there
  checkpoints::CheckpointKeeper checkpoints_;
  CoordinatorLink link_;
  FrontEndLink front_end_;
  StatusService status_;
  RestartService restarts_;
  profiling::ProfileService profiles_;
  HangSearch hangs_;
  traces::TraceLooks traces_;
  StandbyKeeper standbys_;
  NodeLook node_look_;
  OnFailure on_failure_;
  std::string ended_badly_;  // the report, where the job has
  JobEndWatch job_end_;
  WarnedWorkers warned_workers_;
  Requeue requeue_;
  probes::GraceSearch grace_;
  std::optional<os::AnsweringChild> warm_up_;  // while others take part

  std::vector<report::Hang> hangs_shown_;
  bool only_tells_;                         // this agent starts nothing and only reports its failure
  std::optional<std::string> stop_sender_;  // sender of the first stop signal, as in rendezvous::StopRequest
  int world_size_ = 0;                      // size of the world that this agent's store is for
  bool decision_pending_ = false;
  bool coordinator_ended_ = false;          // after its last message
  bool failed_ = false;                     // a handler threw
  bool stepped_aside_ = false;              // moved to CPUs that no worker holds
  bool keeps_checkpoints_ = false;          // after the end of the job
  std::optional<GlobalRank> told_failure_;  // first failure reported in this attempt
  bool traced_ = false;                     // this attempt: SIGKILL has not ended a worker in a debugger
  bool ends_attempt_ = false;               // once the endings are described
};

}  // namespace ddprun::agent
