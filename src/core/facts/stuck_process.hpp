// A process that SIGKILL has not ended, and a ddprun that does not run, in words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/duration.hpp"

namespace ddprun::facts {

struct StuckProcess {
  int pid = 0;
  std::string name;
  char state = '?';          // proc(5); of a thread in D where there is one
  std::string wait_channel;  // the kernel's function in which that thread sleeps; empty where it is not shown
  int tracer = 0;            // pid; 0: none
  std::string tracer_name;
};

// Returns "pid 4711 (python3) is in uninterruptible sleep (state D) in nvidia_close".
std::string describe(const StuckProcess& process);
std::string hint_for(const StuckProcess& process, const std::string& host);

// A ddprun that does not run, as another process on its host sees it.
// It is stopped (state T), or waits in the kernel (state D).
class StoppedProcess {
 public:
  static constexpr Milliseconds k_usual_pause{10000};  // between two looks
  static constexpr Milliseconds k_close_pause{1000};   // once it was seen not to run
  static constexpr Milliseconds k_held_after{5000};    // before that it may have been an accident
  static constexpr Milliseconds k_told_after{30000};

  // Notes the result of one look. `cpu_ticks`: it has run since the last look if they differ.
  void note(char state, std::uint64_t cpu_ticks, TimePoint now);
  TimePoint next_look() const { return next_look_; }
  bool is_due(TimePoint now) const { return now >= next_look_; }

  // Reports whether it has not run for so long that it is no accident.
  bool is_held() const { return stopped_for_ >= k_held_after; }
  // Returns true once in each period in which it does not run, after k_told_after.
  bool takes_telling() { return stopped_for_ >= k_told_after && !std::exchange(told_, true); }
  Milliseconds stopped_for() const { return stopped_for_; }

 private:
  TimePoint next_look_;
  std::optional<TimePoint> since_;
  char state_ = '?';
  std::uint64_t cpu_ticks_ = 0;
  Milliseconds stopped_for_{0};
  bool told_ = false;
};

// Returns "ddprun on n2 (pid 4711) has been stopped (state T) for 30 s"
std::string describe_stopped(const StuckProcess& process, const std::string& host, Milliseconds time);
std::string hint_for_stopped(const StuckProcess& process, const std::string& host);

}  // namespace ddprun::facts
