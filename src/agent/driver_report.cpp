// What a driver says at the end: to people, to the file of --report, and to a launcher around it.
#include <fmt/format.h>

#include "agent/driver.hpp"
#include "console/log.hpp"
#include "os/atomic_file.hpp"
#include "supervise/report.hpp"

namespace ddprun::agent {

std::string Driver::report(const rendezvous::Finish& finish) const {
  write_report(finish);
  std::string text = supervise::render_report(finish.cause, finish.restarts);
  if (!text.empty()) text.pop_back();
  text += supervise::render_others(finish.others, finish.victims);
  text += supervise::render_restarts(finish.restarts, finish.cause);
  for (const std::string& remark : finish.remarks) text += "\n  " + remark;
  if (!finish.cause.hint.empty()) text += "\nhint: " + finish.cause.hint;
  return text;
}

void Driver::write_report(const rendezvous::Finish& finish) const {
  const std::string& path = node_->options.report_file;
  if (path.empty()) return;
  supervise::JobEnd end{finish.cause,   finish.others,       finish.victims,
                        finish.remarks, node_->run_id.value, node_->host};
  end.world_size = plan_->assignment.world_size;
  end.nodes = plan_->assignment.node_count;
  end.attempts = plan_->assignment.attempt.value + 1;
  end.restarts = finish.restarts.used;
  end.max_restarts = node_->options.max_restarts.value;
  end.restarted = finish.restarts.causes;
  end.began = began_;
  end.ended = os::unix_milliseconds();
  const std::string why = os::replace_file(path, supervise::render_report_json(end));
  if (!why.empty())
    console::say_error(fmt::format("cannot write the report {} on {}: {}", path, node_->host, why));
}

// torchrun around ddprun reads the root cause there, in its own format.
void Driver::tell_outer_launcher(const supervise::Cause& cause) const {
  const auto path = facts::find_variable(snapshot_, "TORCHELASTIC_ERROR_FILE");
  if (!path || path->empty() || cause.kind != supervise::Cause::Kind::worker_failed) return;
  const std::string why = os::replace_file(*path, supervise::render_error_file(cause));
  if (!why.empty())
    console::say_detail(fmt::format("cannot write TORCHELASTIC_ERROR_FILE {}: {}", *path, why));
}

}  // namespace ddprun::agent
