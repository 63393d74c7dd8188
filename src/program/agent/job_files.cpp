#include "agent/job_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/text.hpp"
#include "console/console.hpp"
#include "options/options.hpp"
#include "os/clock.hpp"
#include "os/process/process_table.hpp"
#include "report/outcome.hpp"

namespace ddprun::agent {

namespace {

using How = os::FileWriter::How;

struct Row {
  const char* name;
  const char* preposition;
  const char* noun;
  How how;
};

Row row_of(JobFiles::Kind kind) {
  switch (kind) {
    case JobFiles::Kind::events:
      return {"the events", " to", "event", How::append};
    case JobFiles::Kind::metrics:
      return {"the metrics", " to", "text", How::replace};
    case JobFiles::Kind::report:
      return {"the report", "", "text", How::replace};
    case JobFiles::Kind::error_file:
      break;
  }
  return {"TORCHELASTIC_ERROR_FILE", "", "text", How::replace};
}

// In another PID namespace, or on another host, it cannot be seen.
bool may_run(const events::MetricsKeeper& keeper, const events::MetricsKeeper& own) {
  return keeper.host != own.host || os::is_running(keeper.pid, keeper.started);
}

os::FileWriter::Merge merge_of(JobFiles::Kind kind, const std::string& host) {
  if (kind != JobFiles::Kind::metrics) return {};
  return [own = metrics_keeper(host)](const std::string& before, std::string_view text) {
    return events::merge_metrics(text, before,
                                 [&](const events::MetricsKeeper& each) { return may_run(each, own); });
  };
}

}  // namespace

events::MetricsKeeper metrics_keeper(const std::string& host) {
  const auto own = os::capture_process(::getpid());
  return {fmt::format("{}/{}", host, os::pid_namespace()), ::getpid(), own ? own->start_time : 0};
}

JobFiles::JobFiles(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot)
    : context_(context), plans_(plans) {
  const options::Options& options = plans.node->options;
  const std::map<Kind, std::string> paths{{Kind::events, options.events_file},
                                          {Kind::metrics, options.metrics_file},
                                          {Kind::report, options.report_file}};
  for (const auto& [kind, path] : paths) {
    std::vector<Kind> same;
    for (const auto& [other, its_path] : paths) {
      if (its_path == path) same.push_back(other);
    }
    add(kind, path, same);
  }
  add(Kind::error_file, facts::find_variable(snapshot, "TORCHELASTIC_ERROR_FILE").value_or(""), {});
}

// `same`: what goes to this path.
void JobFiles::add(Kind kind, const std::string& path, const std::vector<Kind>& same) {
  if (path.empty()) return;
  const Row row = row_of(kind);
  const std::string& host = plans_.node->host;
  const bool shared = same.size() > 1;
  streams::NamedFile::Subject subject{fmt::format("{}{}", row.name, row.preposition),
                                      fmt::format("{} on {}", printable(path), host), row.noun};
  if (shared) {
    std::vector<std::string> names;
    for (const Kind each : same) names.emplace_back(row_of(each).name);
    subject.file = join(names, " and ") + " to";
    subject.noun.clear();
  }
  files_.try_emplace(kind, context_, path, std::move(subject), row.how, make_say(kind, path, shared),
                     merge_of(kind, host));
}

// A path of several files is reported once.
streams::NamedFile::Say JobFiles::make_say(Kind kind, const std::string& path, bool shared) {
  return [this, kind, path, shared](const std::string& what, const std::string& hint) {
    if (kind == Kind::error_file) return console::say_detail(what);
    if (!shared || reported_.insert(path).second) console::say_error(what, hint);
  };
}

void JobFiles::write(Kind kind, std::string_view text) {
  if (const auto found = files_.find(kind); found != files_.end()) found->second.write(text);
}

void JobFiles::when_written(std::optional<Milliseconds> limit, std::function<void()> handler) {
  const auto missing = std::make_shared<std::size_t>(files_.size());
  if (files_.empty()) return handler();
  const Milliseconds wait =
      std::min(limit.value_or(os::FileWriter::k_last_write), os::FileWriter::k_last_write);
  for (auto& [kind, file] : files_) {
    file.when_written(wait, [missing, handler] {
      if (--*missing == 0) handler();
    });
  }
}

EventRecorder::EventRecorder(const Plans& plans, const workers::WorkerGroup& workers, JobFiles& files,
                             std::function<void(events::Event)> send)
    : plans_(plans),
      workers_(workers),
      files_(files),
      send_(std::move(send)),
      metrics_(metrics_keeper(plans.node->host)) {}

// One text a line: several jobs may append to one file.
void EventRecorder::write(const events::Event& event) {
  files_.write(JobFiles::Kind::events, events::render_event(event));
  if (files_.wanted(JobFiles::Kind::metrics) && metrics_.note(event))
    files_.write(JobFiles::Kind::metrics, metrics_.render());
}

void EventRecorder::record(events::Event event) {
  if (!wanted()) return;
  if (event.unix_milliseconds == 0) event.unix_milliseconds = os::unix_milliseconds();
  if (event.host.empty()) event.host = plans_.node->host;
  if (plans_.node->rendezvous.role != plan::RendezvousRole::member) return write(event);
  send_(std::move(event));
}

void EventRecorder::record_job_begin() {
  events::Event event;
  event.kind = events::EventKind::begin;
  event.job = plans_.node->run_id.value;
  event.nodes = plans_.node->rendezvous.agents;
  record(std::move(event));
}

events::Event EventRecorder::event_of(events::EventKind kind, std::size_t worker) const {
  events::Event event;
  event.kind = kind;
  event.attempt = plans_.attempt->assignment.attempt.value;
  event.rank = plans_.attempt->assignment.workers[worker].rank.value;
  event.local_rank = plans_.attempt->assignment.workers[worker].local_rank.value;
  event.pid = workers_.pid(worker);
  event.gpu = plans_.attempt->planned[worker].device;
  return event;
}

void EventRecorder::record_worker(events::EventKind kind, std::size_t worker) {
  events::Event event = event_of(kind, worker);
  if (kind == events::EventKind::start) event.what = workers_.how_started(worker);
  record(std::move(event));
}

void EventRecorder::record_exit(std::size_t worker, const ExitStatus& status) {
  if (!wanted()) return;
  events::Event event = event_of(events::EventKind::exit, worker);
  report::Failure failure;
  failure.rank = plans_.attempt->assignment.workers[worker].rank;
  failure.host = plans_.node->host;
  failure.program = plans_.attempt->planned[worker].command.front();
  failure.status = status;
  event.what = report::describe(failure);
  if (status.kind == ExitStatus::Kind::exited) event.exit_code = status.value;
  if (status.kind == ExitStatus::Kind::signalled) event.signal = options::signal_name(status.value);
  record(std::move(event));
}

void EventRecorder::record_connections(std::size_t connections) {
  const bool tells =
      connections == 1 || connections == static_cast<std::size_t>(plans_.attempt->assignment.world_size);
  if (!tells || connections <= most_connections_) return;
  most_connections_ = connections;
  events::Event event;
  event.kind = events::EventKind::store;
  event.attempt = plans_.attempt->assignment.attempt.value;
  event.workers = static_cast<int>(connections);
  record(std::move(event));
}

}  // namespace ddprun::agent
