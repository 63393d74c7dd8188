// torch's watchdog for workers: a worker says through a named pipe until when it must have said that it is
// done, and is killed when it has not (torch.distributed.elastic.timer.FileTimerClient). One line of JSON a
// request, at most PIPE_BUF bytes: {"version", "pid", "scope_id", "expiration_time", "signal"}; the time is
// in Unix seconds, a negative one takes the timer back.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::supervise {

class WatchdogTimers {
 public:
  struct Expired {
    int pid = 0;
    std::string scope;
    int signal = 0;  // what the process asked to be killed with
    friend bool operator==(const Expired&, const Expired&) = default;
  };

  // What was read from the pipe, cut anywhere. Lines that are no request are dropped.
  void feed(std::string_view bytes);
  // At most one timer a process, its earliest one with a signal; a process that is told has no timers left.
  std::vector<Expired> take_expired(double unix_seconds);
  std::optional<double> next() const;  // when the next one expires, in Unix seconds

 private:
  struct Timer {
    double expires = 0;
    int signal = 0;
  };
  void read_line(std::string_view line);

  std::string unfinished_;
  std::map<std::pair<int, std::string>, Timer> timers_;  // by process and scope
};

}  // namespace ddprun::supervise
