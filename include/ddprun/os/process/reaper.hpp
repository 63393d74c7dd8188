// A helper process that cleans up after a ddprun that could not: killed by SIGKILL, crashed, out of memory.
//
// It holds the read end of a pipe whose only writer is ddprun, and sleeps in read(): no wake-ups. ddprun
// tells it which workers live. When the pipe ends without "all is well", it kills the workers' families and
// every process that carries this launch's marker variable, which also reaches what left the family, until a
// look finds none (a job that a worker submitted carries it too: who belongs to another job is left alone),
// and removes the launch's folder. Without a /proc of our own PID namespace it reaches the workers' process
// groups only. It is in a session of its own with every signal blocked, holds no other descriptor of ours
// (srun's or a shell's pipes end with ddprun, not with it) and shows up as "ddprun-reaper".
//
// A child of ddprun that is forked and does not run another program would hold the writer too: close
// `descriptor()` there.
#pragma once

#include <string>
#include <vector>

#include "ddprun/base/duration.hpp"
#include "ddprun/os/fd.hpp"

namespace ddprun::os {

// Goes into every worker's environment, with the launch's own random value.
inline constexpr const char* k_agent_variable = "DDPRUN_AGENT_ID";
std::string make_random_id();  // 32 hexadecimal digits from the kernel

class Reaper {
 public:
  // Forks; before the first worker, while we are small. Throws Error. `mercy`: what is watched gets SIGTERM
  // and this long to end before it is killed (srun ends its step on SIGTERM and leaves it running on
  // SIGKILL). `folders`: what is removed with all it holds when ddprun is gone or says that all is well;
  // those that do not exist are passed over, so that a folder can be named here before it is made.
  explicit Reaper(const std::string& agent_id, Milliseconds mercy = Milliseconds{0},
                  const std::vector<std::string>& folders = {});
  Reaper(Reaper&&) = default;
  // Without dismiss(): the reaper kills what it watches.
  ~Reaper() = default;

  int pid() const noexcept { return pid_; }  // not to be killed by a sweep, reaped by dismiss()
  int descriptor() const noexcept { return writer_.get(); }

  // A worker that leads its own group or session. Forget it before it is reaped: then its number is free.
  void watch(int leader);
  void forget(int leader);
  // A file that goes with us, unless it holds another text by then; not one of several kilobytes.
  void remove_at_end(const std::string& path, const std::string& text);
  // All is well: the reaper ends without doing anything. Waits for that, at most a second.
  void dismiss();

 private:
  void tell(char what, int leader);

  Fd writer_;
  int pid_ = -1;
};

}  // namespace ddprun::os
