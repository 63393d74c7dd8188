// Counts of a job in Prometheus' text format, for node_exporter's textfile collector.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "events/event.hpp"

namespace ddprun::events {

// The process that keeps a job's metrics in a file, which other jobs may use too.
struct MetricsKeeper {
  std::string host;
  int pid = 0;
  std::uint64_t started = 0;  // start time from /proc, to tell it from another process of that number

  bool operator==(const MetricsKeeper&) const = default;
};

class JobMetrics {
 public:
  explicit JobMetrics(MetricsKeeper keeper = {}) : keeper_(std::move(keeper)) {}
  // Notes the event; reports whether the text has changed. What each worker does is not in it.
  bool note(const Event& event);
  std::string render() const;

 private:
  std::string cause_of(const Event& restart) const;

  MetricsKeeper keeper_;
  std::string job_;
  std::int64_t began_ = 0;
  std::int64_t ended_ = 0;
  std::int64_t trouble_ = 0;  // the stop after which no attempt has begun yet
  int nodes_ = 0;
  int workers_ = 0;
  int attempts_ = 0;
  int exit_code_ = 0;
  int hangs_ = 0;
  std::string trouble_cause_ = "nodes";  // cause of a restart that no ending of a worker explains
  double rendezvous_seconds_ = 0;
  double lost_seconds_ = 0;
  std::map<int, double> waited_seconds_;  // time that the others waited, by rank
  std::map<std::string, int>
      restarts_;  // number by cause: "exit_code_1", "SIGSEGV", "hang", "asked", "nodes"
};

// `text`, what render() has made, with what `before`, the file as it is, has of other jobs that still run:
// their keeper does, as `runs` says.
std::string merge_metrics(std::string_view text, std::string_view before,
                          const std::function<bool(const MetricsKeeper&)>& runs);

}  // namespace ddprun::events
