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
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/duration.hpp"
#include "options/restart_options.hpp"

namespace ddprun::lifecycle {

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

}  // namespace ddprun::lifecycle
