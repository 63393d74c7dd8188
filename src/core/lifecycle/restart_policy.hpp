// Decision whether a failed attempt is answered with another one, and when.
// It implements --max-restarts, --restart-policy and the options beside them, and is the only place that
// decides this; its input is what happened and how long it took.
// The only place where that is decided; it is told what happened and how long it took.
//
// An attempt that failed is not answered where, in this order,
//
//   the restarts are used up;
//   another attempt would find the same: the program is not there, or is none;
//   its exit code is one of --no-restart-on;
//   --requeue runs the job again, as its exit code is one of --requeue-on or the workers were warned of the
//   job's end;
//   less than --min-attempt-time is left until the job's end;
//   the policy is `progress`, and this attempt and the one before it failed by the same cause, and neither of
//   them made progress.
//
// Progress is a worker that ran longer than --min-progress, whatever its rank and host, or one that touched
// its DDPRUN_PROGRESS_FILE. An attempt's workers start together, so that what counts is the time from the
// start to the first failure.
//
// Two failures have the same cause where both are true:
//
//   They ended alike: with the same exit code that ddprun would end with. A death by SIGSEGV is therefore the
//   same as 139 from a shell in between, and out of memory is another death than a plain SIGKILL.
//   They said alike. A death by signal says all by itself, but for SIGABRT, whose reason is in the last
//   words. Else both are the same row of the known failures, or their exceptions, or where there is none the
//   last lines they wrote, are equal but for digits and hexadecimal addresses.
//
// Rank, host, pid and time never count: what is wrong with a script shows on any rank. Two failures whose
// words differ for no good reason count as different; that costs a restart, where the opposite mistake would
// end a job that could go on.
//
// Backoff: the restart after an attempt that failed within 10 s waits --restart-backoff, that after the next
// one twice as long, up to k_longest_backoff. An attempt that ran longer begins anew, without a wait.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "options/fault_options.hpp"
#include "report/outcome.hpp"

namespace ddprun::lifecycle {

inline constexpr Milliseconds k_quick_failure{10000};
inline constexpr std::size_t k_max_restart_causes = 100;  // kept for the report, the latest

// Failure of an attempt.
struct AttemptEnd {
  report::Failure cause;
  Milliseconds ran{0};                 // from the start of its workers to its first failure
  bool touched = false;                // a worker touched its DDPRUN_PROGRESS_FILE
  std::optional<Milliseconds> left{};  // until the job's end, where that is known
  bool warned = false;                 // the workers had the signal of --signal-before-end
};

struct RestartDecision {
  bool restart = false;
  Milliseconds delay{0};  // from now to the start
  std::string why;        // reason against one, as words after "not restarted: "; empty if no restart is left
  std::string hint;
};

bool is_same_cause(const report::Failure& one, const report::Failure& other);

class RestartPolicy {
 public:
  RestartPolicy(int max_restarts, options::RestartOptions options, options::TimeLimitOptions limit = {});

  RestartDecision decide(const AttemptEnd& end) const;
  // Returns the decision, from now on part of the input of the next one.
  RestartDecision note_end(const AttemptEnd& end);
  // Notes the restarts of an earlier coordinator; their causes are not known any more.
  void note_used(int restarts) { used_.used = std::max(used_.used, restarts); }
  const report::UsedRestarts& used() const { return used_; }
  Milliseconds longest_delay() const;

 private:
  bool made_progress(const AttemptEnd& end) const;
  Milliseconds delay_after(const AttemptEnd& end) const;
  std::string too_late(const AttemptEnd& end) const;

  options::RestartOptions options_;
  options::TimeLimitOptions limit_;
  report::UsedRestarts used_;
  std::optional<report::Failure> stalled_;  // the last attempt's cause, where it made no progress
  int quick_failures_ = 0;                  // in a row
};

}  // namespace ddprun::lifecycle
