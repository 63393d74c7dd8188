// Brings the agents of a launch together, starts them, and decides how the job goes on when something ends.
//   gathering -> [probing] -> opening -> running -> stopping -> opening (next attempt)
//                                           |           |
//                                           +-> finished <- (from every state)
//
// The states are described in expected_messages.hpp.
//
// Rules. The first cause wins; of an attempt's failures it is the one that says nothing of another
// (report/root_cause.hpp), then the first, and of those with the same `now` the lowest rank. A failure
// that a restart would answer gives way to a lost agent or a signal, and stays in the report. A signal after
// all agents have succeeded changes nothing. Messages about a past attempt are ignored; who sends what none
// sends then is lost (expected_messages.hpp).
//
// Which agents take part is chosen for each attempt (membership.hpp). Of a fixed number of nodes one that is
// lost after Start ends the job, or is waited for if it may return. With MIN:MAX or spares all start again
// with those that are here, as when one comes or is drained; that spends no restart, as a --restart does not,
// and a failure beside it counts as caused by it. One that does not stop its workers in time ends the job. Of
// a split network only a majority goes on (quorum.hpp, status_messages.hpp). One that takes over begins the
// next attempt once no worker of the last one runs any more. An agent that keeps its connection but does not
// answer is lost once others wait for it alone (answers.hpp). Nothing here looks at a clock or a socket:
// events and `now` in, actions out, in order.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lifecycle/restart_policy.hpp"
#include "rendezvous/client_questions.hpp"
#include "rendezvous/coordinator/answers.hpp"
#include "rendezvous/coordinator/checkpoints.hpp"
#include "rendezvous/coordinator/coordinator_values.hpp"
#include "rendezvous/coordinator/job_watch.hpp"
#include "rendezvous/coordinator_address.hpp"
#include "rendezvous/coordinator_settings.hpp"
#include "rendezvous/expected_messages.hpp"
#include "rendezvous/host_limits.hpp"
#include "rendezvous/membership/membership.hpp"
#include "rendezvous/membership/quorum.hpp"

namespace ddprun::rendezvous {

inline constexpr ConnectionId k_local_connection{0};  // the agent in this process

class Coordinator {
 public:
  using Actions = std::vector<CoordinatorAction>;

  Coordinator(CoordinatorSettings settings, TimePoint now);

  Actions on_message(ConnectionId connection, const AgentMessage& message, TimePoint now);
  // Notes that the connection is gone, or what came through it is no message; `why` is a sentence.
  Actions on_closed(ConnectionId connection, const std::string& why, TimePoint now,
                    ConnectionEnd end = ConnectionEnd::silent);
  // Notes that a process at `address` failed to prove itself.
  Actions on_refused(const std::string& address, const std::string& why, TimePoint now);
  Actions on_store_ready(Attempt attempt, int port, TimePoint now);
  Actions on_store_failed(Attempt attempt, const std::string& why, TimePoint now);
  Actions on_store_client(const ClientQuestion& question, TimePoint now);  // not on this host
  Actions on_connections(int count, TimePoint now);  // connections to the store of this attempt now
  Actions on_job_end(std::optional<TimePoint> at, std::optional<int> warning);  // the signal for all workers
  Actions on_grace(Milliseconds grace, TimePoint now);  // time that the scheduler gives the workers to stop
  Actions on_time(TimePoint now);
  std::optional<TimePoint> deadline() const;  // when on_time wants to be called
  // Reports whether agents that are yet to come would look for this process after the launch failed.
  bool expects_latecomers() const {
    return ended_with_.kind == report::Cause::Kind::launcher_failed && told_ < agents_.size();
  }

 private:
  using State = CoordinatorState;
  using Agent = CoordinatorAgent;
  void handle(ConnectionId connection, const Join& join, TimePoint now);
  void handle(ConnectionId connection, const Probed& probed, TimePoint now);
  void handle(ConnectionId connection, const AttemptFailed& failed, TimePoint now);
  void handle(ConnectionId connection, const AttemptSucceeded& succeeded, TimePoint now);
  void handle(ConnectionId connection, const Stopped& stopped, TimePoint now);
  void handle(ConnectionId connection, const Stuck& stuck, TimePoint now);
  void handle(ConnectionId connection, const StopRequest& request, TimePoint now);
  void handle(ConnectionId connection, const ClientVerdict& answer, TimePoint now);
  void handle(ConnectionId connection, const Modules& modules, TimePoint now);
  void handle(ConnectionId connection, const RestartRequest& request, TimePoint now);
  void handle(ConnectionId connection, const Looked& looked, TimePoint now);
  template <WatchMessage Message>
  void handle(ConnectionId connection, const Message& message, TimePoint now) {
    carry_out(watch_.note(connection, message, job_facts(), now), now);
  }
  JobFacts job_facts() const;
  void carry_out(JobWatch::Found found, TimePoint now);
  void look_at_spares();
  void note_unfit(AgentIndex agent, const Unfit& unfit, bool leaves);
  void handle(ConnectionId connection, const CheckpointsHeld& message, TimePoint now);
  void hold_end();
  void settle(TimePoint now);  // the last step of each event
  std::string replace_slow(int rank, TimePoint now);
  RestartReply judge_request(const std::string& host, const std::vector<AgentIndex>& places) const;
  void drain(const std::vector<AgentIndex>& places, const std::string& sender, TimePoint now);
  void part_with(AgentIndex agent, const std::string& sentence, TimePoint now, bool drained = false);
  void fail_hung(const status::Verdict& verdict, TimePoint now);
  bool has_status() const;
  Milliseconds status_delay() const;
  std::optional<TimePoint> status_due() const;
  std::string describe_waiting(TimePoint now) const;
  std::string describe_phase() const;
  std::string disagreement(const Join& join) const;
  void refuse_late(ConnectionId connection, const Join& join);
  void refuse(ConnectionId connection, std::string reason, std::string hint);
  void join_late(ConnectionId connection, const Join& join, TimePoint now);
  bool goes_on_without(AgentIndex agent, const std::string& sentence, TimePoint now);
  void tell_alone(TimePoint now);
  void enter(AgentIndex place, ConnectionId connection, const Join& join, TimePoint now);
  void begin_last_call(TimePoint now);
  bool enough_nodes() const;
  bool all_came() const { return members_.here().size() + without_.size() >= agents_.size(); }
  bool does_without(ConnectionId connection, const Join& join, TimePoint now);
  bool let_go(ConnectionId connection, const Stopped& stopped, TimePoint now);
  void choose_participants();
  void stand_by(AgentIndex agent);
  std::vector<Successor> successors() const;
  void begin_roll();
  void tell_rosters();
  std::string describe_left() const;
  void tell_roster(AgentIndex agent, Roster roster);
  Roster make_roster() const;
  void handle(ConnectionId connection, const RosterTaken& taken, TimePoint now);
  bool is_outvoted(AgentIndex lost, const std::string& sentence);
  void gather_survivor(ConnectionId connection, const Join& join, TimePoint now);
  void check_takeover(TimePoint now);
  void take_over(TimePoint now);
  void give_up_takeover();
  void note_first_failure(const report::Failure& cause);
  bool too_few() const { return settings_.elastic && !enough_nodes(); }
  std::string describe_too_few() const;
  void form_world(TimePoint now);
  void tell_differences(const std::vector<plan::Announcement>& announcements);
  void find_address(TimePoint now);
  void note_failed_start(TimePoint now);
  bool any_failed_start() const;
  void fail_start();
  void probe(TimePoint now);
  bool all_answered();
  void check_probes(TimePoint now);
  void open_store(TimePoint now);
  std::map<AgentIndex, std::vector<plan::StorePlace>> store_places();
  void start_all(const std::string& address, int port, TimePoint now);
  AgentIndex owner_of_rank_zero() const;
  void begin_stop(Stop stop, TimePoint now);
  void drop(ConnectionId connection, const std::string& why, ConnectionEnd end, TimePoint now);
  enum class Left { ended, away, told };  // told: it is to end, and may not know it yet
  void forget(AgentIndex agent, const std::string& sentence, Left how, TimePoint now);
  bool may_run_workers(AgentIndex agent) const;
  void expel(ConnectionId connection, const std::string& why, TimePoint now);
  bool check_rank(ConnectionId connection, const report::Failure& failure, TimePoint now);
  std::set<ConnectionId> agents_to_ask(const std::string& client) const;
  void lose(AgentIndex agent, const std::string& sentence, TimePoint now, Left how = Left::away);
  void check_stopped(TimePoint now);
  lifecycle::AttemptEnd attempt_end() const;
  lifecycle::RestartDecision decide_restart() const;
  void finish_instead();
  void restart(TimePoint now);
  void restart_changed(TimePoint now);
  bool may_return(AgentIndex agent) const;
  bool comes_back(ConnectionId connection, const Join& join, TimePoint now);
  void look_at_held(TimePoint now);
  void await_return(const std::string& why, TimePoint now);
  void form_world_again(TimePoint now);
  void next_attempt();
  void begin_attempt(TimePoint now);
  bool waits_to_restart() const { return state_ == State::opening && state_deadline_; }
  bool is_busy(AgentIndex agent) const;
  bool is_looking(AgentIndex agent) const { return members_.is_here(agent) && at(agent).looks; }
  void end_with(report::Cause cause, TimePoint now, bool whole_tree = false);
  void finish(const report::Cause& cause);
  void join_deadline_passed(TimePoint now);
  void stop_deadline_passed(TimePoint now);
  void update_status(TimePoint now);
  void send_all(const CoordinatorMessage& message);
  void note_further(const report::Failure& failure);
  void note_ended(AgentIndex agent, const Stopped& stopped);
  void settle_cause();
  void handle(ConnectionId connection, const Happened& happened, TimePoint now);
  void handle(ConnectionId, const Alive&, TimePoint) {}  // on_message() has noted it as heard
  void note_heard(ConnectionId connection, TimePoint now);
  void look_for_silent(TimePoint now);
  bool waits_for(AgentIndex agent, TimePoint now) const;
  void handle(ConnectionId, const lifeline::Output&, TimePoint) {}  // the service hands that connection over
  void record(events::Event event);
  bool all_succeeded();
  bool is_beside(AgentIndex agent) const;
  std::vector<AddressWitness> witnesses() const;
  std::string host_of(AgentIndex agent) const;
  std::string name_of(AgentIndex agent) const;  // "n3 (ranks 8-15)"
  const plan::Assignment* share_of(AgentIndex agent) const;
  bool runs_rank(AgentIndex agent, GlobalRank rank) const;
  report::Cause failed_here(std::string detail) const;
  Agent& at(AgentIndex agent) { return agents_[static_cast<std::size_t>(agent.value)]; }
  const Agent& at(AgentIndex agent) const { return agents_[static_cast<std::size_t>(agent.value)]; }
  Agent& of(ConnectionId connection) { return at(members_.here().at(connection)); }
  const plan::Announcement& announced(AgentIndex agent) const { return *members_.at(agent).announcement; }
  void send(AgentIndex agent, CoordinatorMessage message);
  CoordinatorSettings settings_;
  State state_ = State::gathering;
  Membership members_;
  Quorum quorum_;
  std::map<ConnectionId, std::pair<AgentIndex, int>> parted_;  // with the number of the roll
  std::optional<Gathering> takeover_;                          // under way
  std::vector<Agent> agents_;                                  // agents by place
  std::size_t answered_ = 0, succeeded_ = 0, stopped_ = 0;     // for all_done
  ClientQuestions questions_;
  JobWatch watch_;
  RestartRequests requests_;
  Answers answers_;
  Modules modules_;                                                  // latest list announced; empty: none yet
  std::map<std::string, std::string> refused_;                       // address -> why, the first few
  std::optional<TimePoint> state_deadline_, last_call_, killed_at_;  // killed_at_: no lost worker runs then
  State status_state_ = State::gathering;                            // state that status_since_ is about
  TimePoint alone_due_, status_since_, status_due_;
  Checkpoints checkpoints_;
  int probe_rounds_ = 0, connections_ = 0;  // the most at a time to the store of this attempt
  plan::WorldPlan world_;
  std::vector<std::string> changes_;  // reasons for a new world once all have stopped
  bool told_differences_ = false, store_asked_ = false, status_stale_ = true, progressed_ = false;
  std::vector<HeldJoin> held_;
  std::vector<FailedStart> without_;  // hosts that the job starts without
  std::string address_, status_shown_;
  Attempt attempt_;
  std::optional<report::Failure> first_failure_;  // first of this attempt; settle_cause() may replace it
  std::vector<int> victims_;
  TimePoint started_at_, failed_at_, stopping_since_;  // the workers of this attempt; the first of them; all
  lifecycle::RestartPolicy policy_;
  std::optional<report::Cause> final_cause_, late_cause_;  // decided while stopping; instead of a restart
  std::vector<report::Failure> others_;
  std::vector<std::string> candidates_, remarks_;
  CoordinatorJobEnd job_end_;
  report::Cause ended_with_;
  std::size_t told_ = 0;  // agents that have been sent Finish
  Actions actions_;
};

}  // namespace ddprun::rendezvous
