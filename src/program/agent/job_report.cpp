#include "agent/job_report.hpp"

#include "os/clock.hpp"
#include "report/report.hpp"

namespace ddprun::agent {

namespace {

// Reports whether the failure has been printed already: a check's finding, or the end of a program of
// several.
bool is_told(const report::Cause& cause, const options::Options& options) {
  if (options.several_programs)
    return cause.kind == report::Cause::Kind::worker_failed &&
           cause.failure.status.kind == ExitStatus::Kind::exited;
  return options.check.wanted && cause.kind == report::Cause::Kind::worker_failed &&
         report::exit_code_of(cause.failure.status) == 1;
}

}  // namespace

std::string render_report_json(const rendezvous::Finish& finish, const Plans& plans, std::int64_t began,
                               const Requeue& requeue) {
  report::JobEnd end{finish.cause,    finish.others, finish.victims, finish.remarks, plans.node->run_id.value,
                     plans.node->host};
  end.world_size = plans.attempt->assignment.world_size;
  end.nodes = plans.attempt->assignment.node_count;
  end.attempts = plans.attempt->assignment.attempt.value + 1;
  end.restarts = finish.restarts.used;
  end.hangs = finish.hangs;
  end.max_restarts = plans.node->options.max_restarts.value;
  end.restarted = finish.restarts.causes;
  end.killed = finish.killed;
  end.began = began;
  end.ended = os::unix_milliseconds();
  end.scheduler_restarts = requeue.restarts();
  end.requeuing = requeue.state();
  return report::render_report_json(end);
}

void write_report(const rendezvous::Finish& finish, const Plans& plans, std::int64_t began,
                  const Requeue& requeue, JobFiles& files) {
  if (files.wanted(JobFiles::Kind::report))
    files.write(JobFiles::Kind::report, render_report_json(finish, plans, began, requeue));
}

std::string report_end(const rendezvous::Finish& finish, const Plans& plans, std::int64_t began,
                       const Requeue& requeue, JobFiles& files) {
  write_report(finish, plans, began, requeue, files);
  if (is_told(finish.cause, plans.node->options)) return {};
  std::string text = report::render_report(finish.cause, finish.restarts);
  if (!text.empty()) text.pop_back();
  const bool signalled = finish.cause.kind == report::Cause::Kind::stopped_by_signal;
  text += report::render_others(finish.others, signalled ? std::vector<int>() : finish.victims);
  for (const report::KilledRanks& each : finish.killed) text += "\n  " + report::describe(each);
  text += report::render_restarts(finish.restarts, finish.cause);
  if (!text.empty()) {
    for (const report::Hang& hang : finish.hangs) text += "\n  " + report::describe(hang);
  }
  for (const std::string& remark : finish.remarks) text += "\n  " + remark;
  if (!finish.cause.hint.empty()) text += "\nhint: " + finish.cause.hint;
  return text;
}

void tell_outer_launcher(const report::Cause& cause, JobFiles& files) {
  using Kind = report::Cause::Kind;
  if (cause.kind == Kind::success || cause.kind == Kind::stopped_by_signal) return;
  files.write(JobFiles::Kind::error_file, report::render_error_file(cause));
}

}  // namespace ddprun::agent
