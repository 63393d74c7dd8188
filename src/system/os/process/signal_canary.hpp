// A helper process beside the workers that reports which signals it gets.
// Those are the signals that were sent to all processes below us, so that the workers have them too
// (lifecycle/signal_ledger.hpp explains their use).
//
// It blocks every signal, so that it survives all but SIGKILL, and takes them from a descriptor, each once.
// It sleeps in poll(), shows up as "ddprun-canary" and ends with ddprun, whose end of its socket then closes.
//
// Whether it is hit exactly when a worker is, depends on what a signal is sent to:
//
//   a process         It is neither ddprun nor a worker: never hit.
//   a tree, a cgroup  It is ddprun's child in ddprun's cgroup like the workers: hit like them.
//   a session         (pbs_mom) Workers lead sessions of their own, and so does it: neither is hit. The one
//                     worker that has the terminal stays in ddprun's session; then it does so too.
//   a group           It has its own, and so has each worker: neither is hit with ddprun's. The group that
//                     has the terminal, its worker's, is sent the keys' signals, but ddprun is not.
//
// One case remains where a worker is hit and it is not: when the terminal is gone, the kernel sends SIGHUP to
// the group that had it, and the shell does so to ddprun's (SignalWatch::note_reached()).
#pragma once

#include <optional>

#include "os/fd.hpp"
#include "os/process/spawn.hpp"

namespace ddprun::os {

class SignalCanary {
 public:
  // Forks; before the first worker, while we are small. `place` as the workers'. Throws Error.
  explicit SignalCanary(ChildGroup place);

  int pid() const noexcept { return pid_; }                // not to be killed by a sweep
  const Fd& descriptor() const noexcept { return told_; }  // readable when it has something to tell
  std::optional<int> read();                               // a signal it has got; never waits
  // Reports whether it has signals that it has not told: the machine was too busy to let it run.
  bool is_behind() const;
  // Ends it. The destructor waits for that, at most a second.
  void dismiss();

 private:
  Fd told_;
  int pid_ = -1;
  EndingChild ending_;
};

}  // namespace ddprun::os
