// The end of a job that a scheduler brings: the warning before it, and what the report says of it.
#include <fmt/format.h>

#include "agent/driver.hpp"
#include "console/log.hpp"
#include "probes/launch_facts.hpp"
#include "report/report.hpp"

namespace ddprun::agent {

JobEndWatch::Hooks Driver::job_end_hooks() {
  JobEndWatch::Hooks hooks;
  hooks.know = [this](TimePoint end) {
    if (auto* const here = link_.coordinator()) here->note_job_end(end);
  };
  hooks.warn = [this](int signal) {
    if (auto* const here = link_.coordinator()) here->warn(signal);
  };
  return hooks;
}

void Driver::handle(const rendezvous::AliveQuestion& question) {
  supervisor_.extend_grace(question.grace);
  arm_timer();
}

// A preempted job may have longer than its workers are given otherwise. Once, by the coordinator for all.
void Driver::ask_for_grace() {
  if (!link_.coordinates()) return;
  probes::GraceSearch::Hooks hooks;
  hooks.found = [this](Milliseconds grace) {
    console::say(fmt::format("Slurm leaves job {} more time: the workers have {} to stop",
                             plans_.node->allocation.job_id.value, describe_duration(grace)));
    if (auto* const here = link_.coordinator()) here->note_grace(grace);
    supervisor_.extend_grace(grace);
    arm_timer();
  };
  grace_.begin(plans_.node->allocation, plans_.node->options.shutdown_timeout, std::move(hooks));
}

void Driver::handle(const rendezvous::Warn& warn) {
  if (warn.attempt != supervisor_.attempt() || supervisor_.idle() || life_.ending()) return;
  warned_workers_.begin(warn.signal);
}

// Adds which ranks were running when a signal came, if it was the scheduler's or some had ended before.
void Driver::explain_end(rendezvous::Finish& finish) const {
  report::Cause& cause = finish.cause;
  if (cause.kind != report::Cause::Kind::stopped_by_signal) return;
  const bool unexplained = cause.detail.empty();
  if (unexplained) cause.detail = probes::ask_why_job_ends(plans_.node->allocation);
  const int world_size = plans_.attempt->assignment.world_size;
  const bool by_scheduler = unexplained && !cause.detail.empty();
  const bool some_had_ended = finish.victims.size() < static_cast<std::size_t>(world_size);
  const bool known = !finish.victims.empty() && world_size > 0;
  if (known && (by_scheduler || some_had_ended))
    finish.remarks.push_back(report::describe_running(finish.victims, world_size));
}

}  // namespace ddprun::agent
