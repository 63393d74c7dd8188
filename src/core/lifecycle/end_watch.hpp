// The end of the job's time: workers are warned (--signal-before-end), and the job may run again (--requeue).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/duration.hpp"
#include "facts/schedulers.hpp"
#include "options/fault_options.hpp"
#include "report/outcome.hpp"

namespace ddprun::lifecycle {

// Warning of the workers before the scheduler ends the job (--signal-before-end).
// A state machine that calls nothing. It also decides how well the end of the job is known until then.
//
// States:  not begun ──start──► asking ◄──► waiting ──► warned
//
//   asking   the scheduler is asked how long the job may still run: at the start, if the job's variables do
//            not say it, and again shortly before the answer matters, since a time limit can be changed while
//            a job runs. Without an answer what was known before counts.
//   waiting  until the scheduler is to be asked again, or the workers are to be warned.
//   warned   once. Later attempts are warned as they start, by the coordinator.
//
// It runs beside the coordinator, which tells all agents; the agent of a coordinator that takes over begins
// its own.

// Delivery of the warning of --signal-before-end to the workers of this host.
// Each worker gets it once, as soon as its main process handles the signal, since it would end a process that
// does not. A worker that has just started gets it once its script has set its handler.

// Reports whether a process handles or blocks the signal, by /proc/PID/status: SigCgt and SigBlk. One that
// blocks it takes it by sigwait or signalfd, or handles it later.
bool handles_signal(std::string_view status, int signal);

class PendingWarning {
 public:
  enum class Worker { gone, deaf, ready };  // deaf: it does not handle the signal (yet)
  struct Step {
    std::vector<std::size_t> send;
    std::vector<std::size_t> tell;  // workers to report, once, as not warned: they do not handle the signal
  };

  void begin(std::size_t workers, TimePoint now);
  void end() { pending_.clear(); }
  Step look(const std::function<Worker(std::size_t)>& state, TimePoint now);
  // Returns when to look again; nullopt if all have it.
  std::optional<TimePoint> deadline() const { return pending_.empty() ? std::nullopt : next_; }

 private:
  std::vector<std::size_t> pending_;
  std::optional<TimePoint> next_;
  std::optional<TimePoint> tell_at_;
};

// Describes the time left as people write it: "45 s", "2 min", "23 h 59 min".
std::string describe_left(Milliseconds left);

class EndWatch {
 public:
  struct Ask {};  // then on_answer()
  struct Know {   // the job's end, where it is new or has moved
    TimePoint end;
  };
  struct Warn {
    Milliseconds left;
  };
  struct SayUnknown {};  // an unknown time cannot be acted on
  using Action = std::variant<Ask, Know, Warn, SayUnknown>;
  using Actions = std::vector<Action>;

  explicit EndWatch(const options::TimeLimitOptions& options);

  // Notes that the workers start; `left`: as the job's variables say. Calls after the first one are ignored.
  Actions on_start(std::optional<Milliseconds> left, TimePoint now);
  Actions on_answer(std::optional<Milliseconds> left, TimePoint now);
  Actions on_time(TimePoint now);
  std::optional<TimePoint> deadline() const;
  bool warned() const { return warned_; }

 private:
  bool is_for_workers() const { return lead_ || min_attempt_ > Milliseconds{0}; }
  bool is_fresh(TimePoint needed) const { return asked_at_ && *asked_at_ >= needed; }
  void learn(std::optional<Milliseconds> left, TimePoint now, Actions& actions);
  void ask(TimePoint now, Actions& actions);

  std::optional<Milliseconds> lead_;
  Milliseconds min_attempt_;
  bool resumes_;  // checkpoints are flushed before the end, if it is known
  bool begun_ = false;
  bool asking_ = false;
  bool warned_ = false;
  bool said_unknown_ = false;
  std::optional<TimePoint> end_;
  std::optional<TimePoint> asked_at_;
};

// Decision whether the scheduler is asked to run the job again (--requeue), and how.

// End of the job, as far as it matters here.
struct RequeueFacts {
  facts::Scheduler scheduler = facts::Scheduler::none;
  std::string job;             // the name by which the scheduler's programs mean it alone; empty: in none
  bool shown = true;           // the scheduler's programs show it by that name
  int restarts = 0;            // number of times that the scheduler had started the job before
  bool warned = false;         // the workers had the signal of --signal-before-end
  bool at_time_limit = false;  // stopped_by_signal: the scheduler did it at the job's time limit
};

struct RequeueDecision {
  bool ask = false;
  std::string what;  // the sentence: "requeuing job 29 ..." or "job 29 is not requeued: ..."; empty: nothing
  std::string hint;
};

// Decides to ask the scheduler if the workers ended, with success or not, after the warning, the time limit
// ended them and what they saved is flushed, or one failed with a code of --requeue-on and none of
// --no-requeue-on, and the job was not started again --requeue=N times already. A user who stops a job by
// hand wants it to end; a preemption is the scheduler's own decision.
RequeueDecision decide_requeue(const options::TimeLimitOptions& options, const report::Cause& cause,
                               const RequeueFacts& facts);

// Returns the command line that asks; empty if ddprun knows none.
std::vector<std::string> requeue_command(facts::Scheduler scheduler, const std::string& job);

// Returns the remedy for a refusal by the scheduler.
std::string requeue_hint(facts::Scheduler scheduler);

}  // namespace ddprun::lifecycle
