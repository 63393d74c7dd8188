// Where the coordinator's host writes what happens: the file of --events and that of --metrics.
//
// A file that cannot be written costs a sentence, once, and the job nothing.
#pragma once

#include <functional>
#include <string>

#include "events/event.hpp"
#include "events/metrics.hpp"
#include "os/fd.hpp"

namespace ddprun::agent {

class EventLog {
 public:
  // Empty paths: nothing is written. Events are appended.
  EventLog(std::string events_path, std::string metrics_path, std::string host,
           std::function<void(const std::string& sentence)> complain);

  bool wanted() const { return !events_path_.empty() || !metrics_path_.empty(); }
  void write(const events::Event& event);

 private:
  void append(const std::string& line);
  void give_up(std::string& path, const char* what, const std::string& why);

  std::string events_path_;
  std::string metrics_path_;
  std::string host_;
  std::function<void(const std::string&)> complain_;
  os::Fd file_;
  events::JobMetrics metrics_;
};

}  // namespace ddprun::agent
