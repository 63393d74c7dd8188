// Starts ddprun on the hosts of a launch through remote launchers, as a state machine that calls nothing.
// It also decides how that launch continues and how it ends.
//
//   working ──(all is over, or what is left was abandoned)──► draining ──(all output is written)──► left
//
//   working   The remote launchers are started in order, at most `starting_at_once` unsettled ones at a time.
//             One is settled when its agent is connected, when it has ended, or after `settling`.
//   draining  Nothing is waited for but whoever reads the output. A stop signal limits that wait.
//   left      Leave was the last action.
//
// An agent that has connected is stopped through its lifeline, in order and with its grace; a remote launcher
// is signalled only where none of its agents has connected, or in the end. The agents decide about the job:
// their exit code is repeated.
//
// It is over when every remote launcher that was started has ended and no agent is connected. A remote
// launcher that ends while its agent is connected ends nothing. When every agent has said how it ended or is
// lost, the remote launchers have some seconds, since one that waits for a host that is gone would wait for
// ever.
//
// One host that cannot take part ends the launch, since the others would wait for it: a remote launcher that
// could not start its agent, one that ended without an agent `common_end` ago, an agent that ended before it
// joined the others. The first of them is the failure, and its code is the exit code. With
// SelfLaunchPlan::least_hosts that is so only of the first host, which has the coordinator, and where too few
// are left; the exit code is that of the coordinator's agent, of a later one where that was lost.
//
// Giving up on the remote launchers has three steps, each a wait: patience, SIGTERM, mercy, SIGKILL, mercy,
// abandoned. A new reason to give up replaces the wait that is going on. Where no agent is left the first
// step waits on while output flows or waits for its reader, through no fault of the remote launcher's own.
//
// Stop signals: the first is judged and stops all; within `same_signal` a second one is the first again. A
// person who sends one more later hurries all; a scheduler does not. Agents are told of every signal once,
// and whether all processes of this host had it: then a scheduler has sent it, which may be about to signal
// theirs (lifecycle/signal_ledger.hpp).
//
// Rules that win over others: nothing is started after a stop, a failure, or the end of the work; nothing is
// signalled after its end was told.
//
// Nothing here looks at a clock, a process or a socket: events and `now` in, actions out, in order.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/duration.hpp"
#include "base/exit_status.hpp"
#include "lifecycle/signal_ledger.hpp"
#include "rendezvous/lifeline.hpp"
#include "selflaunch/remote_launcher.hpp"

namespace ddprun::selflaunch {

// Actions that the state machine of the self-launch returns, to be carried out in order.

// Starts the process of a remote launcher; a program that cannot be run is an end, too.
struct Start {
  std::size_t remote_launcher;  // index into SelfLaunchPlan::commands
};
struct SignalRemoteLauncher {  // with all processes of its session
  std::size_t remote_launcher;
  int number;
};
struct SignalAgents {  // all that are connected
  rendezvous::lifeline::Signal signal;
};
// Asks whether this own signal has to be passed on (lifecycle/signal_ledger.hpp); answer with on_verdict.
struct Judge {
  int number;
  bool from_above;
};
struct Say {
  enum class Level { detail, normal, error };
  Level level = Level::normal;
  std::string text;
  std::string hint{};
  friend bool operator==(const Say&, const Say&) = default;
};
// Wait until all output is written, at most this long; answer with on_drained. A second one replaces the
// first, whose answer may still come.
struct Drain {
  std::optional<Milliseconds> limit;
};
// Answer with on_losses: what was lost of the output, everything that was said included.
struct CountLosses {};
// Always the last action: end with this exit code.
struct Leave {
  int code;
};

using SelfLaunchAction =
    std::variant<Start, SignalRemoteLauncher, SignalAgents, Judge, Say, Drain, CountLosses, Leave>;

struct SelfLaunchLimits {
  std::size_t starting_at_once = 32;
  Milliseconds settling{5000};
  Milliseconds common_end{10000};  // from the end of one without an agent to the end of all
  Milliseconds silence{30000};     // silence of all agents before it is reported
  // Time beyond the workers' grace: the way there, the last kill and the way back.
  Milliseconds stop_margin{20000};
  Milliseconds patience{5000};             // with remote launchers whose agents are not expected to say more
  Milliseconds patience_after_loss{3000};  // with one that waits for a host that is gone
  Milliseconds mercy{1000};                // between the steps where no agent is left; else it is `patience`
  Milliseconds busy_within{1000};          // output that came so long ago still flows
  Milliseconds hurried_drain{2000};
  Milliseconds same_signal = lifecycle::k_same_signal_window;
};

struct SelfLaunchSettings {
  std::vector<int> stop_signals;    // signals that stop the job; any other one is passed on
  Milliseconds shutdown_timeout{};  // the workers' grace when they are stopped
  int port = 0;                     // port for agents, for messages
  SelfLaunchLimits limits{};
};

class SelfLaunch {
 public:
  using Actions = std::vector<SelfLaunchAction>;

  struct OwnSignal {
    int number = 0;
    bool from_person = false;   // false: a scheduler asks, which may do so several times
    bool is_passed_on = false;  // workers get it when it is no stop signal
    bool from_above = false;    // a process above this one has sent it
  };

  // Makes the state machine; the plan has at least one command and outlives it.
  SelfLaunch(const SelfLaunchPlan& plan, SelfLaunchSettings settings);

  Actions start(TimePoint now);
  Actions on_agent(const rendezvous::lifeline::Hello& hello, TimePoint now);
  // Notes the end of an agent; one that did not start has a code other than 0.
  Actions on_agent_ended(const rendezvous::lifeline::Hello& hello, const rendezvous::lifeline::Ended& ended,
                         TimePoint now);
  Actions on_agent_lost(const rendezvous::lifeline::Hello& hello, const std::string& why, TimePoint now);
  // Notes the end of a remote launcher, once for each that was started. `words`: why it could not be run,
  // else the last line that it wrote on standard error; may be empty.
  Actions on_remote_launcher_ended(std::size_t remote_launcher, const ExitStatus& status,
                                   const std::string& words, TimePoint now);
  Actions on_signal(const OwnSignal& signal, TimePoint now);
  Actions on_verdict(const lifecycle::SignalLedger::Verdict& verdict, TimePoint now);
  // The scheduler gives the workers so long to stop, more than --shutdown-timeout.
  Actions on_grace(Milliseconds grace, TimePoint now);
  Actions on_drained();
  Actions on_losses(const std::vector<std::string>& sentences);
  // Notes the time. `busy`: output of the remote launchers came within SelfLaunchLimits::busy_within, or
  // waits for the reader of ours.
  Actions on_time(TimePoint now, bool busy);
  // Returns when on_time has to be called; nullopt while the job runs.
  std::optional<TimePoint> deadline() const;

  // Reports whether an agent has ended with another code than 0.
  bool has_failed_agent() const;
  const SelfLaunchLimits& limits() const { return settings_.limits; }

 private:
  enum class State { working, draining, left };
  enum class Step { terminate, kill, abandon };  // steps of giving up, each after a wait
  struct RemoteLauncher {
    bool started = false;
    bool settled = false;
    bool connected = false;   // agent was there; it may have gone since
    std::optional<int> code;  // exit code, once it has ended
  };
  struct GivingUp {
    Step next = Step::terminate;
    TimePoint due;
    Milliseconds mercy{};
  };
  struct Due {
    TimePoint at;
    std::size_t remote_launcher = 0;
  };

  void start_some(TimePoint now);
  void settle(std::size_t remote_launcher, TimePoint now);
  bool does_without(const std::string& host);
  bool could_not_start(std::size_t remote_launcher, const ExitStatus& status) const;
  void settle_overdue(TimePoint now);
  void give_up_waiting_for_all(TimePoint now);
  void tell_of_silence(TimePoint now);

  bool is_stop_signal(int number) const;
  void note_stop_signal(const OwnSignal& signal, TimePoint now);
  void stop(const rendezvous::lifeline::Signal& signal, TimePoint now);
  void fail(int code, TimePoint now);
  void stop_late_agent();
  void release_remote_launchers(TimePoint now);
  void give_up_after(Milliseconds patience, Milliseconds mercy, TimePoint now);
  void take_step(TimePoint now, bool busy);
  void signal_agents(const rendezvous::lifeline::Signal& signal);
  void signal_remote_launchers(int number, bool only_unconnected);

  bool may_start() const { return state_ == State::working && !stopped_by_ && !failure_code_; }
  void finish_when_over();
  void drain();
  std::optional<selflaunch::Say> describe_unknown_end() const;
  bool knows_by_remote_launchers() const;  // their codes show how ddprun ended if no agent has
  int exit_code() const;

  Actions take();

  const SelfLaunchPlan& plan_;
  SelfLaunchSettings settings_;
  State state_ = State::working;
  std::vector<RemoteLauncher> remote_launchers_;
  std::size_t started_ = 0;  // number of started ones, which come first
  std::size_t unsettled_ = 0;
  std::size_t ended_ = 0;
  std::size_t connected_ = 0;      // agents that are there and have not told their end
  std::deque<Due> settling_;       // in the order of their starts
  std::deque<Due> without_agent_;  // times when all have to have ended; as they ended
  std::optional<TimePoint> silence_due_;
  std::optional<GivingUp> giving_up_;
  std::optional<int> stopped_by_;  // the first signal that stops the job
  TimePoint last_stop_signal_;
  std::optional<int> failure_code_;  // a host cannot take part
  std::vector<int> told_;            // the agents' exit codes, as they came
  std::vector<std::string> lost_;    // hosts whose agents went without a word
  std::set<std::string> without_;    // hosts that cannot take part, and need not
  std::optional<int> decisive_;      // with least_hosts: code of the coordinator's agent
  bool releasing_ = false;           // no agent is left: the remote launchers' time has begun
  bool abandoned_ = false;           // time is over for those that are left
  bool hurried_ = false;             // output that is not read soon is given up
  Actions actions_;
};

}  // namespace ddprun::selflaunch
