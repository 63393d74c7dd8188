// Files that an agent writes for its user beside the workers' output, and events for --events and --metrics.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/link_settings.hpp"
#include "base/exit_status.hpp"
#include "events/event.hpp"
#include "events/metrics.hpp"
#include "facts/snapshot.hpp"
#include "streams/named_file.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

class JobFiles {
 public:
  enum class Kind { events, metrics, report, error_file };

  JobFiles(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot);

  bool wanted(Kind kind) const { return files_.contains(kind); }
  void write(Kind kind, std::string_view text);  // only if it is wanted
  // Calls when all of them are written, or after `limit`, and after os::FileWriter::k_last_write.
  void when_written(std::optional<Milliseconds> limit, std::function<void()> handler);

 private:
  void add(Kind kind, const std::string& path, const std::vector<Kind>& same);
  streams::NamedFile::Say make_say(Kind kind, const std::string& path, bool shared);

  boost::asio::io_context& context_;
  const Plans& plans_;
  std::map<Kind, streams::NamedFile> files_;
  std::set<std::string> reported_;  // paths of several files that cannot be written
};

// Returns the identity of this process as the keeper of its job's metrics.
events::MetricsKeeper metrics_keeper(const std::string& host);

// Events of an agent for --events and --metrics.
// They are its own workers' and, on the coordinator's host, those of all others, which are written to the two
// files.

class EventRecorder {
 public:
  // Makes a recorder. `send`: to the coordinator's host, if that is another one.
  EventRecorder(const Plans& plans, const workers::WorkerGroup& workers, JobFiles& files,
                std::function<void(events::Event)> send);

  bool wanted() const {
    return files_.wanted(JobFiles::Kind::events) || files_.wanted(JobFiles::Kind::metrics);
  }
  void record(events::Event event);
  void record_job_begin();
  void begin_attempt() { most_connections_ = 0; }
  void record_worker(events::EventKind kind, std::size_t worker);
  void record_exit(std::size_t worker, const ExitStatus& status);
  // Records the number of connections to the store served here, which does not know which worker a connection
  // is from.
  void record_connections(std::size_t connections);

 private:
  events::Event event_of(events::EventKind kind, std::size_t worker) const;
  void write(const events::Event& event);

  const Plans& plans_;
  const workers::WorkerGroup& workers_;
  JobFiles& files_;
  std::function<void(events::Event)> send_;
  events::JobMetrics metrics_;
  std::size_t most_connections_ = 0;  // to the store, in this attempt
};

}  // namespace ddprun::agent
