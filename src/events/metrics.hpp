// Counts of a job in Prometheus' text format, for node_exporter's textfile collector.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "events/event.hpp"

namespace ddprun::events {

class JobMetrics {
 public:
  // Notes the event; reports whether the text has changed. What each worker does is not in it.
  bool note(const Event& event);
  std::string render() const;

 private:
  std::string job_;
  std::int64_t began_ = 0;
  std::int64_t ended_ = 0;
  std::int64_t trouble_ = 0;  // the stop after which no attempt has begun yet
  int nodes_ = 0;
  int workers_ = 0;
  int attempts_ = 0;
  int exit_code_ = 0;
  double rendezvous_seconds_ = 0;
  double lost_seconds_ = 0;
  std::map<std::string, int> restarts_;  // number by cause: "exit_code_1", "SIGSEGV"
};

}  // namespace ddprun::events
