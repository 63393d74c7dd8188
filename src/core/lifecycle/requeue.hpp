// Decision whether the scheduler is asked to run the job again (--requeue), and how.
#pragma once

#include <string>
#include <vector>

#include "facts/schedulers.hpp"
#include "options/restart_options.hpp"
#include "report/outcome.hpp"

namespace ddprun::lifecycle {

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
