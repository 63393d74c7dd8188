#include "agent/requeue.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "agent/job_report.hpp"
#include "allocation/schedulers/job_end.hpp"
#include "base/text.hpp"
#include "console/log.hpp"
#include "lifecycle/requeue.hpp"
#include "os/find_program.hpp"
#include "os/process/ask_program.hpp"
#include "probes/launch_facts.hpp"

namespace ddprun::agent {

namespace {

constexpr Milliseconds k_limit{10000};
constexpr std::size_t k_refusal_width = 300;

// Runs the program. Returns the error that it printed; empty if the request was made.
std::string run_program(const std::vector<std::string>& words) {
  const char* const path = std::getenv("PATH");
  const auto found =
      os::capture_program(words.front(), path == nullptr ? std::nullopt : std::optional<std::string>(path));
  if (found.kind == facts::ProgramKind::missing) return fmt::format("no {} on PATH", words.front());
  return printable(trim(os::ask_program(words, k_limit)), k_refusal_width);
}

}  // namespace

void Requeue::decide(const rendezvous::Finish& finish, const Plans& plans, bool warned) {
  const allocation::Allocation& allocation = plans.node->allocation;
  const options::TimeLimitOptions& options = plans.node->options.time_limit;
  restarts_ = allocation.restart_count.value;
  if (!options.requeue) return;
  const auto shown = probes::ask_for_job(allocation);
  job_ = shown ? shown->name : allocation.job_id.value;
  if (shown) restarts_ = shown->restarts.value_or(restarts_);
  lifecycle::RequeueFacts facts;
  facts.scheduler = allocation.scheduler.value;
  facts.job = job_;
  facts.shown = shown.has_value();
  facts.restarts = restarts_;
  facts.warned = warned;
  facts.at_time_limit = allocation::names_time_limit(finish.cause.detail);
  const lifecycle::RequeueDecision decision = lifecycle::decide_requeue(options, finish.cause, facts);
  if (decision.what.empty()) return;
  state_ = {decision.ask, decision.what, {}};
  hint_ = decision.hint;
  finish_ = finish;
}

void Requeue::ask(const Plans& plans, std::int64_t began, JobFiles& files) {
  if (!state_) return;
  if (!state_->asked) return console::say_error(state_->what, hint_);
  console::say(state_->what);
  const allocation::Allocation& allocation = plans.node->allocation;
  const auto words = lifecycle::requeue_command(allocation.scheduler.value, job_);
  state_->refusal = run_program(words);
  if (state_->refusal.empty()) return;
  console::say_error(fmt::format("job {} is not requeued: {}", job_, state_->refusal),
                     lifecycle::requeue_hint(allocation.scheduler.value));
  write_report(*finish_, plans, began, *this, files);
}

}  // namespace ddprun::agent
