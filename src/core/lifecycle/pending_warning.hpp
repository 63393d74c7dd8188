// Delivery of the warning of --signal-before-end to the workers of this host.
// Each worker gets it once, as soon as its main process handles the signal, since it would end a process that
// does not. A worker that has just started gets it once its script has set its handler.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::lifecycle {

// Reports whether a process handles or blocks the signal, by /proc/PID/status: SigCgt and SigBlk. One that
// blocks it takes it by sigwait or signalfd, or handles it later.
bool handles_signal(std::string_view status, int signal);

class PendingWarning {
 public:
  enum class Worker { gone, deaf, ready };  // deaf: it does not handle the signal (yet)
  struct Step {
    std::vector<std::size_t> send;
    std::vector<std::size_t> tell;  // workers to report, once, as not warned: they do not handle the signal
  };

  void begin(std::size_t workers, TimePoint now);
  void end() { pending_.clear(); }
  Step look(const std::function<Worker(std::size_t)>& state, TimePoint now);
  // Returns when to look again; nullopt if all have it.
  std::optional<TimePoint> deadline() const { return pending_.empty() ? std::nullopt : next_; }

 private:
  std::vector<std::size_t> pending_;
  std::optional<TimePoint> next_;
  std::optional<TimePoint> tell_at_;
};

}  // namespace ddprun::lifecycle
