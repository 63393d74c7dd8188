// Forked helpers of this process: those that answer once, and one that reports its signals.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/exit_status.hpp"
#include "os/descriptors.hpp"
#include "os/process/spawn.hpp"

namespace ddprun::os {

// Forked helpers of this process: their common parts, and those that answer once or warm something up.

// A child process that makes one call and gives its result through a pipe, beside the event loop.
// For calls whose length another process decides, such as a name server or the slowest of all agents,
// where a thread could not be ended.
class AnsweringChild {
 public:
  AnsweringChild() = default;
  // Starts the call in a child. `purpose` completes "cannot ...", thrown as Error when there can be no child.
  // Must be called while this process has one thread. The child keeps all signals blocked (our handlers must
  // not run in it), leaves without any destructor or exit handler, and dies with its parent. `afterwards`:
  // work that it does once its answer is in the pipe and that is closed.
  AnsweringChild(const std::function<std::string()>& call, const std::string& purpose,
                 const std::function<void()>& afterwards = {});
  ~AnsweringChild() { end(); }
  AnsweringChild(AnsweringChild&& other) noexcept;
  AnsweringChild& operator=(AnsweringChild&& other) noexcept;

  // Gives what the call returned, and then its end; nothing when it threw.
  int descriptor() const { return answer_.get(); }
  pid_t pid() const { return child_; }  // -1: none
  // Kills it where it still runs; how it ended, as end_helper() says.
  std::optional<ExitStatus> end();

 private:
  Fd answer_;
  Fd process_;  // its pidfd; empty before Linux 5.3
  pid_t child_ = -1;
};

// Forks a helper that runs `call` and leaves with its code, or with 1 when it throws: without any destructor
// or exit handler. It keeps every signal blocked, since our handlers must not run in it, and dies with its
// parent. Only for processes with a single thread. -1 and errno when there can be no child.
pid_t fork_helper(const std::function<int()>& call);

// Forks one that has to clean up after this process, however that ends: it outlives it, in a session of its
// own, is shown as `name` (15 letters), and has no descriptors but those `kept`, with which `call` is called
// in their order.
pid_t fork_outliving_helper(const char* name, const std::vector<int>& kept,
                            const std::function<int(const std::vector<int>& kept)>& call);

// Kills and reaps it, and says how it ended: before that, or by the SIGKILL. Where another call has reaped
// it, its number may be another process', a worker's even: what `process`, its pidfd, names cannot change.
// Without one (before Linux 5.3) it is left alone when it is not our child any more. nullopt: it was reaped
// already, or the kernel holds it, inside a driver say, for longer than a second.
std::optional<ExitStatus> end_helper(pid_t child, const Fd& process);

// Returns the helpers that are not reaped yet: processes of ours, which no worker has left behind.
std::vector<int> running_helpers();
void note_helper(pid_t child);    // one that was forked otherwise
void forget_helper(pid_t child);  // once it is reaped; reap() does this itself

// Reads from disk what a Python worker reads first, before it is needed.

// Runs `python -c "import torch"` beside everything else, at the lowest priority, without a terminal, output
// or GPUs, so that the files of both are in the page cache afterwards. Nothing tells whether it went well.
// The child may be ended at any time. Throws Error where there can be none.
AnsweringChild start_warm_up(const std::string& python);

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
