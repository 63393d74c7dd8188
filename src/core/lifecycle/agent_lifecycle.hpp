// One agent between its coordinator, the signals that reach it and its workers, as a state machine.
// It decides when the agent takes part, when the job is over for it, and how it leaves. It calls nothing.
// A state machine that calls nothing.
//
// States:  taking part ──end──► ending ──nothing of ours runs──► reading ──► writing ──► left
//
//   taking part  attempts start and stop as the coordinator says. A stop signal that came here is told to it,
//                and ends the job on this host alone where the coordinator does not know this agent (yet).
//                Without its coordinator it goes on where another one may take over: the workers are killed,
//                and once none is left the agent looks for that one.
//   ending       the cause is known, the first one counts. The workers are stopped; the coordinator's agent
//                also waits until all others have heard of the end.
//   reading      what the workers wrote last is read, then the report is said.
//   writing      what was read is written, however long that takes, unless somebody asked to stop: then what
//                is not taken soon is given up.
//   left         exit_code() is final but for output that was lost. After a failure it waits
//                a while for the coordinator's process to end first.
//
// The on_ functions return what follows at once, in order; on_workers() is called after every change of the
// workers.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "lifecycle/signal_ledger.hpp"
#include "report/outcome.hpp"

namespace ddprun::lifecycle {

namespace life {
struct SayError {
  std::string what;
  std::string hint;
};
struct Say {
  std::string what;
};
struct TellFirstStop {};  // a stop signal has come, before the job ends by it
struct StopWorkers {
  int signal;
  bool hurry = false;
  bool undecided = false;  // the signal ledger decides whether they have it already
  bool of_job = false;     // the job or its attempt ends: what ends from here on was stopped
};
struct Judge {  // asks the signal ledger for its verdict
  int signal;
  SignalWay way;
  bool maybe_tree;
};
struct SendStopRequest {
  int signal;
  bool whole_tree;
  bool again = false;
};
struct SendStopped {
  Attempt attempt;
};
struct SendStuck {
  Attempt attempt;
};
struct TakeOutputBack {};  // no longer sent to the coordinator, which forwards it no more
struct AbandonWorkers {};  // SIGKILL has not ended them
struct EndGathered {       // other hosts' output
  Milliseconds patience;
  bool in_any_case;
};
struct ReadOutput {};  // then on_output_read()
struct WriteOutput {   // then on_output_written(), after `limit` at the latest
  std::optional<Milliseconds> limit;
};
struct Rejoin {};        // joins another coordinator; no worker runs any more
struct GiveUpOutput {};  // output that this agent only passes on
struct Leave {           // gives others this long to write the rest
  std::optional<Milliseconds> limit;
};
}  // namespace life

using LifeAction =
    std::variant<life::SayError, life::Say, life::TellFirstStop, life::StopWorkers, life::Judge,
                 life::SendStopRequest, life::SendStopped, life::SendStuck, life::TakeOutputBack,
                 life::AbandonWorkers, life::EndGathered, life::ReadOutput, life::WriteOutput, life::Rejoin,
                 life::GiveUpOutput, life::Leave>;

class AgentLifecycle {
 public:
  struct Limits {
    Milliseconds same_signal{100};  // a second one within this is the first again: a terminal and mpiexec
                                    // both pass on one ^C
    Milliseconds gathered_patience{5000};  // for an agent elsewhere to send its last words
    Milliseconds hurried_write{2000};      // for output that is read slowly, after a stop signal
    // The other hosts go on without one that has lost the coordinator, or without those that have lost a
    // host: their workers are killed at once.
    bool others_go_on = false;
  };
  // Failure that keeps this agent from starting anything: it joins only to report it to the others, in these
  // words.
  struct OwnFailure {
    std::string what;
    std::string hint;
    int exit_code = 0;
  };
  struct Workers {
    bool idle = true;     // none runs
    bool settled = true;  // all ends are described
    bool stuck = false;   // SIGKILL has not ended one
    bool traced = false;  // in a debugger, whose user may let it go
  };
  using Actions = std::vector<LifeAction>;

  AgentLifecycle(std::string host, std::optional<OwnFailure> failure)
      : AgentLifecycle(host, failure, Limits{}) {}
  AgentLifecycle(std::string host, std::optional<OwnFailure> failure, Limits limits)
      : host_(std::move(host)), failure_(std::move(failure)), limits_(limits) {}

  // ---- the coordinator
  void note_found() { found_ = true; }    // the coordinator may not have answered yet
  void note_joined() { joined_ = true; }  // the coordinator knows this agent
  // Notes that this agent coordinates: the others wait for its last word.
  void note_coordinates() {
    told_all_ = false;
    coordinates_ = true;
  }
  void note_told_all() { told_all_ = true; }  // no other agent waits for words of this one (any more)
  // Notes that the end of the job was requested on that host: it continues under no other coordinator.
  void note_job_ends(int signal, std::string host) { job_ends_ = {signal, std::move(host)}; }
  bool accepts_start(const Workers& workers) const { return !ending_ && !stop_signal_ && workers.idle; }
  void note_start() { succeeded_ = false; }
  void note_standby() { succeeded_ = true; }  // a spare has nothing to run
  Actions on_refused(std::string what, std::string hint);
  // Stops. `whole_tree`: a scheduler sent the signal to all processes of the host where it came; it may be
  // about to here.
  Actions on_stop(Attempt attempt, int signal, bool whole_tree);
  // Reports whether the cause is plausible: success counts only if our own workers have succeeded, since no
  // sound coordinator claims it before.
  bool believes(const report::Cause& cause) const {
    return cause.kind != report::Cause::Kind::success || succeeded_;
  }
  // Finishes. `report`: the text that this agent prints, if it is the one.
  Actions on_finish(const report::Cause& cause, std::string report);
  // Notes the loss of the coordinator. `may_rejoin`: another agent may take over, this one included.
  Actions on_lost(std::string what, std::string hint, bool may_rejoin = false);
  Actions on_not_heard();  // the coordinator has not answered for a while

  // ---- signals
  Actions on_stop_signal(int signal, SignalWay way, bool maybe_tree, bool by_person, TimePoint now);
  Actions on_verdict(const SignalLedger::Verdict& verdict);
  Actions on_front_end_lost(TimePoint now);
  void note_explained() { explained_ = true; }  // another ddprun has reported the reason already

  // ---- workers
  void note_succeeded() { succeeded_ = true; }  // all of this attempt
  Actions on_request(int signal);               // a worker's death by it shows that the job is to end
  Actions on_workers(const Workers& workers);

  // ---- the end
  Actions on_output_read();
  Actions on_output_written();
  Actions on_exception(std::string what);  // in the agent itself; once it has left, it just ends
  void note_loss();                        // no success, but an earlier failure counts more

  // Reports whether it waits, once all is written, for the coordinator's process to end first. Several
  // launchers (PRRTE, Open MPI, srun -K) end the whole job as soon as one process fails, and with it a
  // coordinator that is still about to say why.
  bool lets_coordinator_end_first() const {
    return exit_code_ != 0 && joined_ && !coordinates_ && !link_lost_ && !hurried_;
  }

  bool linked() const { return !link_lost_; }
  bool reaches_coordinator() const { return (found_ || joined_) && !link_lost_; }
  bool ending() const { return ending_.has_value(); }
  bool left() const { return phase_ == Phase::left; }
  int exit_code() const { return exit_code_; }

 private:
  enum class Phase { taking_part, reading, writing, left };

  void end(const report::Cause& cause, Actions& actions);
  void end_by_signal(int signal, const std::string& host, Actions& actions);
  void end_with_own_failure(Actions& actions);
  void say_own_failure(Actions& actions);
  void say_report(Actions& actions);
  void request_stop(int signal, bool whole_tree, Actions& actions);
  void hurry(Actions& actions);
  void write(Actions& actions);
  std::optional<Milliseconds> write_limit() const;
  void leave(Actions& actions);
  void answer_stop(const Workers& workers, Actions& actions);
  void rejoin(const Workers& workers, Actions& actions);
  void begin_leaving(const Workers& workers, Actions& actions);

  std::string host_;
  std::optional<OwnFailure> failure_;
  Limits limits_;
  Phase phase_ = Phase::taking_part;
  bool found_ = false;
  bool joined_ = false;
  bool link_lost_ = false;
  bool rejoining_ = false;  // once no worker runs any more
  bool rejoined_ = false;   // had a coordinator before this one
  bool told_all_ = false;
  bool succeeded_ = false;
  bool failure_said_ = false;
  bool explained_ = false;
  bool coordinates_ = false;
  bool leaves_alone_ = false;  // the other hosts are not asked to stop
  bool stop_requested_ = false;
  bool hurried_ = false;
  bool stuck_told_ = false;
  std::optional<Attempt> asked_to_stop_;                 // attempt to be stopped, not answered yet
  std::optional<int> stop_signal_;                       // first signal that came here
  std::optional<std::pair<int, std::string>> job_ends_;  // signal that ends the job, and host it came to
  TimePoint last_stop_signal_;
  std::optional<report::Cause> ending_;
  std::string report_;
  int exit_code_ = 0;
};

}  // namespace ddprun::lifecycle
