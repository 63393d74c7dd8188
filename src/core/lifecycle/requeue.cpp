#include "lifecycle/requeue.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "options/options.hpp"

namespace ddprun::lifecycle {

namespace {

// Reports whether the job ends by a failure of a worker, or because of an unfit node, with one of the codes.
bool has_code(const Sourced<std::vector<int>>& codes, const report::Cause& cause) {
  const int code = exit_code_of(cause);
  const bool counts = cause.kind == report::Cause::Kind::worker_failed || code == k_exit_unfit;
  return counts && std::ranges::binary_search(codes.value, code);
}

std::string describe_code(const Sourced<std::vector<int>>& codes, const report::Cause& cause) {
  return fmt::format("exit code {} is in {}", exit_code_of(cause), codes.origin);
}

// Returns the reason why the job should run again; empty if it should not.
std::string find_reason(const options::TimeLimitOptions& options, const report::Cause& cause,
                        const RequeueFacts& facts) {
  using enum report::Cause::Kind;
  const bool failed = cause.kind == worker_failed;
  if (has_code(options.requeue_on, cause)) return describe_code(options.requeue_on, cause);
  const bool warned = facts.warned && options.signal;
  if (cause.kind == stopped_by_signal && facts.at_time_limit && (warned || options.resumes))
    return "it reached its time limit";
  if (!warned) return {};
  const int signal = options.signal->value.signal;
  if (failed || cause.kind == success) return "its workers ended after " + options::signal_name(signal);
  if (cause.kind != stopped_by_signal) return {};
  // A worker without a handler ends by the warning itself.
  const bool by_warning = cause.signal == signal && cause.detail.empty();
  return by_warning ? "its workers ended after " + options::signal_name(signal) : std::string();
}

}  // namespace

RequeueDecision decide_requeue(const options::TimeLimitOptions& options, const report::Cause& cause,
                               const RequeueFacts& facts) {
  if (!options.requeue) return {};
  const std::string reason = find_reason(options, cause, facts);
  if (reason.empty()) return {};
  if (facts.job.empty())
    return {false, "not requeued: ddprun does not run in a job", "leave out --requeue outside a job"};
  const std::string job = "job " + facts.job;
  if (has_code(options.no_requeue_on, cause)) {
    return {
        false, fmt::format("{} is not requeued: {}", job, describe_code(options.no_requeue_on, cause)), {}};
  }
  if (requeue_command(facts.scheduler, facts.job).empty()) {
    const facts::SchedulerTraits* const traits = facts::find_traits(facts.scheduler);
    return {false,
            fmt::format("{} is not requeued: --requeue does not support the scheduler{}{}", job,
                        traits != nullptr ? " " : "", traits != nullptr ? traits->name : ""),
            requeue_hint(facts.scheduler)};
  }
  if (!facts.shown) {
    return {false, fmt::format("{} is not requeued: the scheduler does not show it", job),
            "requeue it by hand with scontrol requeue, an element of an array as ARRAY_TASK"};
  }
  const int most = options.requeue->value;
  if (most > 0 && facts.restarts >= most) {
    return {false,
            fmt::format("{} is not requeued: it was requeued {} already ({}={})", job,
                        count_of(facts.restarts, "time"), options.requeue->origin, most),
            {}};
  }
  const std::string count =
      most > 0 ? fmt::format("{} of {}", facts.restarts + 1, most) : std::to_string(facts.restarts + 1);
  return {true, fmt::format("requeuing {}: {} (restart {})", job, reason, count), {}};
}

std::vector<std::string> requeue_command(facts::Scheduler scheduler, const std::string& job) {
  if (scheduler == facts::Scheduler::slurm) return {"scontrol", "requeue", job};
  if (scheduler == facts::Scheduler::pbs) return {"qrerun", job};
  return {};
}

std::string requeue_hint(facts::Scheduler scheduler) {
  if (scheduler == facts::Scheduler::slurm)
    return "Slurm requeues batch jobs that were submitted with sbatch --requeue";
  if (scheduler == facts::Scheduler::pbs)
    return "qrerun needs the rights of an operator: submit the next job from the batch script instead";
  return "submit the next job from the batch script instead";
}

}  // namespace ddprun::lifecycle
