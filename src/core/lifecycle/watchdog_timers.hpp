// Timers of torch's watchdog for workers (torch.distributed.elastic.timer.FileTimerClient).
// A worker announces through a named pipe when a piece of work must be done, and is killed if it has not
// reported it done by then. One line of JSON a request, at most PIPE_BUF bytes: {"version", "pid",
// "scope_id", "expiration_time", "signal"}; the time is in Unix seconds, a negative one takes the timer back.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::lifecycle {

class WatchdogTimers {
 public:
  struct Expired {
    int pid = 0;
    std::string scope;
    int signal = 0;  // signal that the process asked to be killed with
    friend bool operator==(const Expired&, const Expired&) = default;
  };

  // Reads a piece of what came through the pipe, cut anywhere. Lines that are no request are dropped.
  void feed(std::string_view bytes);
  // Takes at most one timer a process, its earliest one with a signal; a process that is signalled has no
  // timers left.
  std::vector<Expired> take_expired(double unix_seconds);
  std::optional<double> next() const;  // when the next one expires, in Unix seconds

 private:
  struct Timer {
    double expires = 0;
    int signal = 0;
  };
  void read_line(std::string_view line);

  std::string unfinished_;
  std::map<std::pair<int, std::string>, Timer> timers_;  // indexed by process and scope
};

}  // namespace ddprun::lifecycle
