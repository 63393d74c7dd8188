#include "events/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/text.hpp"

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

// A comment to Prometheus: job="NAME"} HOST PID STARTED.
constexpr std::string_view k_keeper = "# kept by {job=\"";
constexpr std::string_view k_running = "ddprun_running{job=\"";

class Text {
 public:
  Text(const std::string& job, const MetricsKeeper& keeper) : job_(escape_label(job)) {
    text_ = fmt::format("{}{}\"}} {} {} {}\n", k_keeper, job_, keeper.host, keeper.pid, keeper.started);
  }

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

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// Returns the name of the job in a sample or a keeper's line, as it is written; empty: it has none.
std::string_view job_of(std::string_view line) {
  constexpr std::string_view k_label = "{job=\"";
  const std::size_t start = line.find(k_label);
  if (start == std::string_view::npos) return {};
  line.remove_prefix(start + k_label.size());
  for (std::size_t i = 0; i < line.size(); i += line[i] == '\\' ? 2U : 1U) {
    if (line[i] == '"') return line.substr(0, i);
  }
  return {};
}

// "ddprun_running" of "ddprun_running{job=...} 1".
std::string_view family_of(std::string_view sample) { return sample.substr(0, sample.find('{')); }

std::optional<MetricsKeeper> parse_keeper(std::string_view line) {
  const auto words = split_words(line.substr(std::min(line.size(), line.rfind("\"} ") + 3)));
  if (!line.starts_with(k_keeper) || words.size() != 3) return std::nullopt;
  const auto pid = parse_integer(words[1]);
  const auto started = parse_integer(words[2]);
  if (!pid || !started) return std::nullopt;
  return MetricsKeeper{words[0], static_cast<int>(*pid), static_cast<std::uint64_t>(*started)};
}

// The jobs of a file whose keeper runs, other than `own`.
std::set<std::string_view> running_jobs(const std::vector<std::string_view>& lines, std::string_view own,
                                        const std::function<bool(const MetricsKeeper&)>& runs) {
  std::set<std::string_view> kept, running;
  for (const std::string_view line : lines) {
    const std::string_view job = job_of(line);
    const auto keeper = parse_keeper(line);
    if (keeper && job != own && runs(*keeper)) kept.insert(job);
    if (line.starts_with(k_running) && line.ends_with("} 1") && kept.contains(job)) running.insert(job);
  }
  return running;
}

double seconds(std::int64_t milliseconds) { return static_cast<double>(milliseconds) / 1000; }

}  // namespace

bool JobMetrics::note(const Event& event) {
  switch (event.kind) {
    case EventKind::begin:
      *this = JobMetrics(keeper_);
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
      trouble_cause_ = "nodes";
      if (trouble_ != 0) lost_seconds_ += seconds(event.unix_milliseconds - trouble_);
      trouble_ = 0;
      return true;
    case EventKind::stop:
      if (trouble_ == 0) trouble_ = event.unix_milliseconds;
      return false;
    case EventKind::hang:
      ++hangs_;
      trouble_cause_ = "hang";
      return true;
    case EventKind::failed:
      if (trouble_cause_ == "nodes") trouble_cause_ = "not_started";
      return false;
    case EventKind::asked:
      trouble_cause_ = "asked";
      return false;
    case EventKind::waited:
      waited_seconds_[event.rank] += event.seconds.value_or(0);
      return true;
    case EventKind::restart:
      ++restarts_[cause_of(event)];
      return true;
    case EventKind::end:
      ended_ = event.unix_milliseconds;
      exit_code_ = event.exit_code.value_or(0);
      return true;
    default:
      return false;
  }
}

std::string JobMetrics::cause_of(const Event& restart) const {
  if (!restart.signal.empty()) return restart.signal;
  return restart.exit_code ? fmt::format("exit_code_{}", *restart.exit_code) : trouble_cause_;
}

std::string JobMetrics::render() const {
  Text text(job_, keeper_);
  text.single("start_time_seconds", "gauge", "When the job began, in Unix seconds.", seconds(began_));
  text.single("running", "gauge", "1 until the job has ended.", ended_ == 0 ? 1 : 0);
  text.single("nodes", "gauge", "Nodes of the job.", nodes_);
  text.single("workers", "gauge", "Workers of the job.", workers_);
  text.single("rendezvous_seconds", "gauge", "From the start of the coordinator until all nodes had joined.",
              rendezvous_seconds_);
  text.single("attempts_total", "counter", "How often all workers were started.", attempts_);
  text.single("hangs_total", "counter", "How often ranks were found to hang.", hangs_);
  text.family("restarts_total", "counter",
              "Restarts by the exit code or signal of the worker that failed; else hang, asked, not_started "
              "or nodes.");
  for (const auto& [cause, count] : restarts_) {
    text.sample(count, fmt::format(",cause=\"{}\"", escape_label(cause)));
  }
  text.single("lost_seconds_total", "counter", "From each stop of the workers until they were started again.",
              lost_seconds_);
  if (!waited_seconds_.empty()) {
    text.family("rank_waited_for_seconds_total", "counter", "How long the other ranks waited for this one.");
    for (const auto& [rank, seconds] : waited_seconds_)
      text.sample(seconds, fmt::format(",rank=\"{}\"", rank));
  }
  if (ended_ != 0) {
    text.single("end_time_seconds", "gauge", "When the job ended, in Unix seconds.", seconds(ended_));
    text.single("exit_code", "gauge", "The exit code of the job.", exit_code_);
  }
  return text.text();
}

std::string merge_metrics(std::string_view text, std::string_view before,
                          const std::function<bool(const MetricsKeeper&)>& runs) {
  const std::vector<std::string_view> own = lines_of(text);
  const std::vector<std::string_view> found = lines_of(before);
  const auto jobs = running_jobs(found, own.empty() ? "" : job_of(own.front()), runs);
  std::string keepers, merged;
  std::map<std::string_view, std::string> others;  // samples by family, which has to be in one place
  for (const std::string_view line : found) {
    if (!jobs.contains(job_of(line))) continue;
    (line.starts_with('#') ? keepers : others[family_of(line)]).append(line).push_back('\n');
  }
  for (const std::string_view line : own) {
    merged.append(line).push_back('\n');
    constexpr std::string_view k_type = "# TYPE ";
    if (line.starts_with(k_type))
      merged += others[line.substr(k_type.size(), line.rfind(' ') - k_type.size())];
  }
  return keepers + merged;
}

}  // namespace ddprun::events
