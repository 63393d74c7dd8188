// The workers of one ddprun process, over all attempts, as a state machine that calls nothing.
//
// States:  idle ──start──► running ──(all ended | stop)──► stopping ──► sweeping ──► idle
//
//   running   some main process lives and nobody asked to stop. The first failure is reported once; the
//             others keep running until the coordinator says stop, so that one host decides for all.
//   stopping  the main processes got the stop signal, from us or from whoever sent it to us, and SIGCONT
//             after it where they were stopped; at the end of the grace period their process groups are
//             killed. A main process that ends is not signalled again: its data loaders are not ours to hurry
//             while a sibling writes its checkpoint. One that is there k_stuck_after its SIGKILL is reported
//             and waited for: whether the job goes on without it is for the coordinator, whose stop has a
//             limit.
//   sweeping  every main process has ended. Whatever they left behind (their groups, processes that
//             escaped by setsid) gets SIGTERM, a short while later SIGKILL, until nothing is left.
//   idle      nothing of ours runs. The end of the attempt has been reported: succeeded, or stopped.
//
// Two phases: the note_ functions only settle facts; decide() then returns what follows from all of them. Two
// workers that end in one wake-up therefore give the same result in either order: a death by signal counts
// before an exit code (a killed rank makes its peers fail, not the other way round), then the lower rank.
//
// A death by a signal that asks to end is not a failure where somebody asked: ddprun passed that signal on,
// or the worker has the terminal, whose keys signal it alone. Then the job is to end by that signal. And
// since who signals a whole tree may hit the workers a moment before ddprun, such a death is looked at only
// after k_request_lag.
//
// Rules that win over others: a person's second stop signal hurries (no grace is left); a stop is never taken
// back, and after all have succeeded it changes nothing; nothing is signalled after its end was noted.
#pragma once

#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "base/duration.hpp"
#include "base/exit_status.hpp"
#include "plan/world_plan.hpp"

namespace ddprun::lifecycle {

// Reports whether a signal asks a process to end: SIGTERM, SIGINT, SIGHUP, SIGQUIT.
bool asks_to_end(int signal);

namespace act {
struct Spawn {
  std::size_t worker;  // index into the assignment's workers
};
struct SignalWorker {  // signals its main process only
  std::size_t worker;
  int signal;
};
struct ContinueWorker {  // SIGCONT, if its main process is stopped: else the signal would wait
  std::size_t worker;
};
struct LookWhereTheyAre {};  // some are about to be killed
struct KillGroup {           // SIGKILL to the worker's process group
  std::size_t worker;
  int signal = 0;         // the signal that had asked it to end
  Milliseconds after{0};  // time since that signal
};
struct SignalDescendants {  // every process below us but the main processes; answer with note_descendants
  int signal;
  bool after_success = false;  // every main process has ended with 0, and nothing was signalled before
};
struct ReportFailure {  // the first failure of this attempt on this host
  std::size_t worker;
};
struct ReportStuck {  // main process is there long after its SIGKILL
  std::size_t worker;
};
struct ReportLeftBehind {};  // so is something that a worker left; nothing waits for it
struct ReportRequest {       // a worker's death by this signal shows that the job is to end
  int signal;
};
struct ReportSuccess {};
struct ReportStopped {};
}  // namespace act

using SupervisorAction =
    std::variant<act::Spawn, act::SignalWorker, act::ContinueWorker, act::LookWhereTheyAre, act::KillGroup,
                 act::SignalDescendants, act::ReportFailure, act::ReportRequest, act::ReportStuck,
                 act::ReportLeftBehind, act::ReportSuccess, act::ReportStopped>;

// Time after which a killed process that is still there is reported: exits that free much memory take a
// second.
inline constexpr Milliseconds k_stuck_after{3000};
// Time before workers are killed at which their places are looked up.
inline constexpr Milliseconds k_look_before{2000};
// Number of times that surviving main processes are killed, a second apart, before they are left behind.
inline constexpr int k_sweep_limit = 10;
inline constexpr Milliseconds k_sweep_grace{1000};  // also from SIGTERM to the first SIGKILL

class Supervisor {
 public:
  // Makes a supervisor. `grace`: time between the stop signal and the kill.
  explicit Supervisor(Milliseconds grace) : grace_(grace) {}

  void note_start(const plan::Assignment& assignment);  // ignored unless idle
  void note_spawned(std::size_t worker);
  void note_ended(std::size_t worker, const ExitStatus& status);  // also a start that failed
  void note_descendants(std::size_t count);                       // number left after a sweep
  // Asks for a stop with this signal; a later one hurries when `hurry` is set. `undecided`: whether the main
  // processes still need the signal is told by note_delivery(), and the grace begins already.
  enum class Delivery { by_us, undecided };
  void note_stop(int signal, bool hurry, TimePoint now, Delivery delivery = Delivery::by_us);
  // Notes whether a signal has to be passed on to the main processes, or they have it already. One that the
  // stop has brought them is not passed on again.
  void note_delivery(int signal, bool pass_on);
  // Between the stop signal and the kill, from now on; also for a stop that is under way, unless it hurries.
  void extend_grace(Milliseconds grace);
  void note_terminal();  // the only worker has it

  std::vector<SupervisorAction> decide(TimePoint now);
  std::optional<TimePoint> deadline() const;

  bool idle() const { return state_ == State::idle && !start_wanted_; }
  bool sweeping() const { return state_ == State::sweeping; }
  bool stuck() const;  // waiting for nothing but what was reported by ReportStuck
  Attempt attempt() const { return attempt_; }
  std::optional<ExitStatus> status(std::size_t worker) const;
  bool running(std::size_t worker) const;

 private:
  enum class State { idle, running, stopping, sweeping };
  struct Worker {
    GlobalRank rank;
    bool running = false;
    std::optional<ExitStatus> ended;
  };

  void begin(std::vector<SupervisorAction>& actions);
  void report_first_failure(std::vector<SupervisorAction>& actions, TimePoint now);
  std::optional<std::size_t> first_failure() const;
  std::optional<int> request_behind(const ExitStatus& status) const;
  void pass_on_signals(std::vector<SupervisorAction>& actions);
  void stop(std::vector<SupervisorAction>& actions, TimePoint now);
  void set_deadlines();
  void signal_all(int signal, std::vector<SupervisorAction>& actions) const;
  void continue_all(std::vector<SupervisorAction>& actions) const;
  void sweep(std::vector<SupervisorAction>& actions, TimePoint now);
  void finish(std::vector<SupervisorAction>& actions);
  bool all_ended() const;
  bool all_succeeded() const;

  Milliseconds grace_;
  State state_ = State::idle;
  Attempt attempt_;
  std::vector<Worker> workers_;
  bool start_wanted_ = false;
  bool failure_reported_ = false;
  std::optional<int> stop_signal_;  // the stop that was asked for
  Delivery delivery_ = Delivery::by_us;
  bool stop_begun_ = false;
  bool stop_sent_ = false;       // the main processes have the signal
  bool stop_continued_ = false;  // and those of them that were stopped run
  std::set<int> requests_;       // signals that ask to end and that the main processes were sent
  bool has_terminal_ = false;
  std::optional<TimePoint> held_until_;  // a death that may turn out to be asked for
  bool hurry_ = false;
  TimePoint stop_began_;
  std::optional<TimePoint> look_at_;  // time at which their places are looked up, before they are killed
  bool killed_ = false;               // the groups of those that did not obey
  bool stuck_reported_ = false;
  std::vector<int> forwarded_;
  int sweeps_ = 0;
  std::optional<std::size_t> descendants_;
  std::optional<TimePoint> deadline_;
};

}  // namespace ddprun::lifecycle
