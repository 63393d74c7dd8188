// Events of an agent for --events and --metrics.
// They are its own workers' and, on the coordinator's host, those of all others, which are written to the two
// files.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "agent/job_files.hpp"
#include "agent/plans.hpp"
#include "base/exit_status.hpp"
#include "events/event.hpp"
#include "events/metrics.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

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
