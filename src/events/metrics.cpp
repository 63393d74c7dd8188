#include "events/metrics.hpp"

#include <fmt/format.h>

#include <string_view>

namespace ddprun::events {

namespace {

// Escapes what the format requires: backslash, quote and line end.
std::string escape_label(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

class Text {
 public:
  explicit Text(const std::string& job) : job_(escape_label(job)) {}

  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP ddprun_{} {}\n# TYPE ddprun_{} {}\n", name, help, name, type);
  }
  void sample(double value, const std::string& more = {}) {
    text_ += fmt::format("ddprun_{}{{job=\"{}\"{}}} {}\n", name_, job_, more, value);
  }
  void single(const char* name, const char* type, const char* help, double value) {
    family(name, type, help);
    sample(value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string job_;
  const char* name_ = "";
  std::string text_;
};

double seconds(std::int64_t milliseconds) { return static_cast<double>(milliseconds) / 1000; }

}  // namespace

bool JobMetrics::note(const Event& event) {
  switch (event.kind) {
    case EventKind::begin:
      *this = {};
      job_ = event.job;
      began_ = event.unix_milliseconds;
      return true;
    case EventKind::plan:
      nodes_ = event.nodes;
      workers_ = event.workers;
      rendezvous_seconds_ = seconds(event.unix_milliseconds - began_);
      return true;
    case EventKind::attempt:
      ++attempts_;
      if (trouble_ != 0) lost_seconds_ += seconds(event.unix_milliseconds - trouble_);
      trouble_ = 0;
      return true;
    case EventKind::stop:
      if (trouble_ == 0) trouble_ = event.unix_milliseconds;
      return false;
    case EventKind::restart:
      ++restarts_[!event.signal.empty() ? event.signal
                                        : fmt::format("exit_code_{}", event.exit_code.value_or(0))];
      return true;
    case EventKind::end:
      ended_ = event.unix_milliseconds;
      exit_code_ = event.exit_code.value_or(0);
      return true;
    default:
      return false;
  }
}

std::string JobMetrics::render() const {
  Text text(job_);
  text.single("start_time_seconds", "gauge", "When the job began, in Unix seconds.", seconds(began_));
  text.single("running", "gauge", "1 until the job has ended.", ended_ == 0 ? 1 : 0);
  text.single("nodes", "gauge", "Nodes of the job.", nodes_);
  text.single("workers", "gauge", "Workers of the job.", workers_);
  text.single("rendezvous_seconds", "gauge", "From the start of the coordinator until all nodes had joined.",
              rendezvous_seconds_);
  text.single("attempts_total", "counter", "How often all workers were started.", attempts_);
  text.family("restarts_total", "counter", "Restarts by the exit code or signal of the worker that failed.");
  for (const auto& [cause, count] : restarts_) {
    text.sample(count, fmt::format(",cause=\"{}\"", escape_label(cause)));
  }
  text.single("lost_seconds_total", "counter", "From each stop of the workers until they were started again.",
              lost_seconds_);
  if (ended_ != 0) {
    text.single("end_time_seconds", "gauge", "When the job ended, in Unix seconds.", seconds(ended_));
    text.single("exit_code", "gauge", "The exit code of the job.", exit_code_);
  }
  return text.text();
}

}  // namespace ddprun::events
