#include "lifecycle/end_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "options/options.hpp"

namespace ddprun::lifecycle {

namespace {

constexpr Milliseconds k_ahead{3000};      // an answer takes two seconds at most
constexpr Milliseconds k_tolerance{5000};  // answers are in whole seconds and take a while

}  // namespace

std::string describe_left(Milliseconds left) {
  const auto seconds = (std::max(left, Milliseconds{0}).count() + 500) / 1000;
  if (seconds < 120) return fmt::format("{} s", seconds);
  const auto minutes = (seconds + 30) / 60;
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

EndWatch::EndWatch(const options::TimeLimitOptions& options)
    : min_attempt_(options.min_attempt.value), resumes_(options.resumes) {
  if (options.signal) lead_ = options.signal->value.before;
}

EndWatch::Actions EndWatch::on_start(std::optional<Milliseconds> left, TimePoint now) {
  Actions actions;
  if (begun_ || !(is_for_workers() || resumes_)) return actions;
  begun_ = true;
  if (!left) {
    ask(now, actions);
    return actions;
  }
  learn(left, now, actions);
  Actions further = on_time(now);
  actions.insert(actions.end(), further.begin(), further.end());
  return actions;
}

EndWatch::Actions EndWatch::on_answer(std::optional<Milliseconds> left, TimePoint now) {
  Actions actions;
  asking_ = false;
  learn(left, now, actions);
  if (!end_ && is_for_workers() && !std::exchange(said_unknown_, true)) actions.push_back(SayUnknown{});
  Actions further = on_time(now);
  actions.insert(actions.end(), further.begin(), further.end());
  return actions;
}

EndWatch::Actions EndWatch::on_time(TimePoint now) {
  Actions actions;
  if (!end_ || asking_) return actions;
  if (lead_ && !warned_ && now >= *end_ - *lead_ - k_ahead) {
    if (!is_fresh(*end_ - *lead_ - k_ahead)) {
      ask(now, actions);
    } else if (now >= *end_ - *lead_) {
      warned_ = true;
      actions.push_back(Warn{std::chrono::floor<Milliseconds>(*end_ - now)});
    }
  }
  const bool matters = min_attempt_ > Milliseconds{0} && now >= *end_ - min_attempt_;
  if (matters && !asking_ && !is_fresh(*end_ - min_attempt_)) ask(now, actions);
  return actions;
}

std::optional<TimePoint> EndWatch::deadline() const {
  std::optional<TimePoint> next;
  if (!end_ || asking_) return next;
  if (lead_ && !warned_) {
    const TimePoint asked = *end_ - *lead_ - k_ahead;
    next = is_fresh(asked) ? *end_ - *lead_ : asked;
  }
  const bool pending = min_attempt_ > Milliseconds{0} && !is_fresh(*end_ - min_attempt_);
  if (pending) next = std::min(next.value_or(TimePoint::max()), *end_ - min_attempt_);
  return next;
}

void EndWatch::learn(std::optional<Milliseconds> left, TimePoint now, Actions& actions) {
  if (!left) return;
  const TimePoint end = now + *left;
  if (end_ && end - *end_ <= k_tolerance && *end_ - end <= k_tolerance) return;
  end_ = end;
  actions.push_back(Know{end});
}

void EndWatch::ask(TimePoint now, Actions& actions) {
  asking_ = true;
  asked_at_ = now;
  actions.push_back(Ask{});
}

namespace {

constexpr Milliseconds k_pause{1000};
constexpr Milliseconds k_patience{15000};  // import torch takes as long from a cold disk

}  // namespace

bool handles_signal(std::string_view status, int signal) {
  return facts::has_signal(status, "SigCgt:", signal) || facts::has_signal(status, "SigBlk:", signal);
}

void PendingWarning::begin(std::size_t workers, TimePoint now) {
  pending_.resize(workers);
  std::iota(pending_.begin(), pending_.end(), std::size_t{0});
  next_ = now;
  tell_at_ = now + k_patience;
}

PendingWarning::Step PendingWarning::look(const std::function<Worker(std::size_t)>& state, TimePoint now) {
  Step step;
  std::vector<std::size_t> deaf;
  for (const std::size_t worker : pending_) {
    const Worker found = state(worker);
    if (found == Worker::ready) step.send.push_back(worker);
    if (found == Worker::deaf) deaf.push_back(worker);
  }
  pending_ = std::move(deaf);
  next_ = now + k_pause;
  if (tell_at_ && now >= *tell_at_) {
    step.tell = pending_;
    tell_at_.reset();
  }
  return step;
}

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
