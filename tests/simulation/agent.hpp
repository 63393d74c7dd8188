// One ddprun process: the state machines of an agent, and around them what src/program/agent does with timers
// and processes.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints.hpp"
#include "clock.hpp"
#include "lifecycle/agent_lifecycle.hpp"
#include "lifecycle/supervisor.hpp"
#include "network.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/membership/member_join.hpp"
#include "rendezvous/membership/member_session.hpp"

namespace ddprun::simulation {

class Agent;
class World;
class MemberSide;
class CoordinatorSide;

inline constexpr int k_switches = 2;

// A launch as it was typed, the same on all hosts.
struct Launch {
  int agents = 2;
  int least = 1;
  int spares = 0;
  bool by_network = false;  // hosts are on k_switches leaf switches in turn
  int domain_size = 0;
  bool returns = false;  // a fixed number of nodes: a lost one is waited for
  int workers = 1;       // of each agent
  int max_restarts = 0;
  options::Grow grow = options::Grow::now;
  Milliseconds backoff{0};
  Milliseconds host_timeout{10000};
  Milliseconds grace{2000};
  Milliseconds join_timeout{60000};
  Milliseconds last_call{3000};
  bool saves = false;  // its workers do, and the newest is kept in memory
  bool flushes = false;
  std::optional<Milliseconds> flush_every{};
};

// A connection that is asked for, until one side or the other has decided.
struct Dialling {
  int from = 0;  // place
  std::function<void(std::shared_ptr<Link>)> taken;
  std::function<void(const std::string& why)> failed;
  bool over = false;
};

class Agent {
 public:
  Agent(World& world, int place, int number);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  void start();
  // What reaches the process: after a moment, in order, and once it is not frozen.
  void post(std::function<void()> what);
  void set_timer(Timer& timer, TimePoint when, std::function<void()> what);
  void freeze();  // SIGSTOP
  void thaw();
  // By those at its other end, or as they are silent; in the kernel's time, also while this is frozen.
  void note_link_closed();
  void kill();        // SIGKILL; its reaper kills the workers
  void lose_power();  // with its host
  void ask_to_stop(int signal);
  void ask_to_restart(const std::string& drained);
  void dial_in(const std::shared_ptr<Dialling>& dialling);
  void end_worker(std::size_t worker, ExitStatus status);

  int place() const { return place_; }
  int number() const { return number_; }
  bool alive() const { return alive_; }
  bool started() const { return started_; }
  bool frozen() const { return frozen_; }
  std::optional<TimePoint> thawed_at() const { return thawed_at_; }
  void note_frozen_for_good() { for_good_ = true; }
  bool frozen_for_good() const { return frozen_ && for_good_; }
  bool held() const;  // frozen for so long that its reaper kills it once most of its links are closed
  bool listens() const { return listens_; }
  bool coordinates() const { return coordinator_ != nullptr; }
  std::optional<int> exit_code() const { return exit_code_; }
  const std::string& last_words() const { return last_words_; }
  std::string name() const;

  // ---- checkpoints.cpp
  CheckpointStore& store() { return store_; }
  const CheckpointStore& store() const { return store_; }
  void tell_checkpoints();
  void copy_from(Agent& other, std::int64_t step, int rank, const Copy& part);

 private:
  friend class MemberSide;
  friend class CoordinatorSide;

  void run(const std::function<void()>& what);
  void kill_if_forsaken();
  void drop_link(bool with_power);
  void leave();
  checkpoint::Held tell_all_checkpoints();
  void begin_checkpoints(const rendezvous::Start& start);
  void save_after(Microseconds after, std::int64_t step, int rank, int world_size);
  void write_part(std::int64_t step, int rank);
  plan::Announcement announcement() const;
  rendezvous::CoordinatorSettings coordinator_settings() const;
  void begin_member(rendezvous::MemberJoinSettings settings, std::optional<rendezvous::Survivor> survivor);
  void begin_coordinator(rendezvous::CoordinatorSettings settings,
                         std::optional<rendezvous::Survivor> survivor);
  void accept(const std::shared_ptr<Dialling>& dialling);
  void send(rendezvous::AgentMessage message);
  void on_coordinator_lost(const std::string& what, ConnectionEnd end);
  void on_lost(const std::string& what);
  void rejoin();
  void take_over();

  void on_message(const rendezvous::CoordinatorMessage& message);
  void handle(const rendezvous::Refused& refused);
  void handle(const rendezvous::Probe&) {}  // answered by the member's side
  void handle(const rendezvous::AliveQuestion&) {}
  void handle(const rendezvous::ClientQuestion&) {}
  void handle(const rendezvous::StatusQuestion&) {}
  void handle(const rendezvous::NodeShown&) {}
  void handle(const rendezvous::JobShown&) {}
  void handle(const rendezvous::RestartReply&) {}
  void handle(const rendezvous::Look& look);
  void handle(const rendezvous::ProfileRequest&) {}
  void handle(const rendezvous::ProfilePart&) {}
  void handle(const rendezvous::ClockReply&) {}
  void handle(const rendezvous::CheckpointOrder& told);
  void handle(const rendezvous::Roster& roster);
  void handle(const rendezvous::Start& start);
  void handle(const rendezvous::Standby&);
  void handle(const rendezvous::Modules&) {}
  void handle(const rendezvous::Warn&) {}
  void handle(const rendezvous::Stop& stop);
  void handle(const rendezvous::Finish& finish);

  lifecycle::AgentLifecycle::Workers workers_state() const {
    return {supervisor_.idle(), true, supervisor_.stuck()};
  }
  void decide();
  void decide_soon();
  void arm_timer();
  void carry_out(const lifecycle::act::Spawn& action);
  void carry_out(const lifecycle::act::SignalWorker& action);
  void carry_out(const lifecycle::act::ContinueWorker&) {}
  void carry_out(const lifecycle::act::LookWhereTheyAre&) {}
  void carry_out(const lifecycle::act::KillGroup& action);
  void carry_out(const lifecycle::act::SignalDescendants& action);
  void carry_out(const lifecycle::act::ReportFailure& action);
  void carry_out(const lifecycle::act::ReportStuck&) {}
  void carry_out(const lifecycle::act::ReportLeftBehind&) {}
  void carry_out(const lifecycle::act::ReportRequest& action);
  void carry_out(const lifecycle::act::ReportSuccess&);
  void carry_out(const lifecycle::act::ReportStopped&) {}
  void carry_out(const lifecycle::AgentLifecycle::Actions& actions);
  void carry_out(const lifecycle::life::SayError& action);
  void carry_out(const lifecycle::life::Say&) {}
  void carry_out(const lifecycle::life::TellFirstStop&) {}
  void carry_out(const lifecycle::life::StopWorkers& action);
  void carry_out(const lifecycle::life::Judge& action);
  void carry_out(const lifecycle::life::SendStopRequest& action);
  void carry_out(const lifecycle::life::SendStopped& action);
  void carry_out(const lifecycle::life::SendStuck& action);
  void carry_out(const lifecycle::life::TakeOutputBack&) {}
  void carry_out(const lifecycle::life::AbandonWorkers&) {}
  void carry_out(const lifecycle::life::EndGathered&) {}
  void carry_out(const lifecycle::life::ReadOutput&);
  void carry_out(const lifecycle::life::WriteOutput&);
  void carry_out(const lifecycle::life::Rejoin&);
  void carry_out(const lifecycle::life::GiveUpOutput&) {}
  void carry_out(const lifecycle::life::Leave&);

  World& world_;
  int place_, number_;
  bool alive_ = true, started_ = false, frozen_ = false, for_good_ = false;
  std::optional<TimePoint> thawed_at_;
  TimePoint frozen_at_;
  std::deque<std::function<void()>> held_;  // while it is frozen
  TimePoint busy_until_;

  lifecycle::AgentLifecycle life_;
  lifecycle::Supervisor supervisor_;
  rendezvous::NextCoordinator next_;
  bool listens_ = false, decision_pending_ = false;
  bool stopping_ = false;  // its workers were told to end
  std::optional<report::Failure> told_failure_;
  std::vector<report::Failure> failures_;
  std::vector<plan::RankAssignment> ranks_;
  Attempt attempt_;
  int led_by_ = -1;  // the number of the process that coordinates
  Timer timer_, turn_;
  CheckpointStore store_;

  std::shared_ptr<MemberSide> member_;
  std::shared_ptr<CoordinatorSide> coordinator_;
  std::deque<std::shared_ptr<Dialling>> backlog_;
  std::optional<int> exit_code_;
  std::string last_words_;
};

}  // namespace ddprun::simulation
