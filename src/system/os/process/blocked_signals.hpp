// Signals that wait while an object lives, in this process or before they reach a worker.
#pragma once

#include <signal.h>
#include <optional>

namespace ddprun::os {

// Signals that wait for our consent before a child gets them.
// The child is traced for them alone (ptrace(2), PTRACE_SEIZE), and no other debugger can attach to it
// meanwhile.
//
// Its main thread only, which is the one that the kernel prefers for a signal to the process. The child runs
// as before, its exec, its children and its system calls included, and is let go when this process ends.

// Begins to hold the child's signals; false if the kernel refuses: one that is traced already, a sandbox,
// kernel.yama.ptrace_scope above 1.
bool hold_signals(int child);
// Returns a signal that waits, as SIGCHLD announces; the child stands still until it is released. Never
// waits.
std::optional<int> next_held_signal(int child);
void release_signal(int child, int number);  // 0: the child does not get it

class BlockedSignals {
 public:
  BlockedSignals();                     // all: around a fork, since no handler of ours may run in the child
  explicit BlockedSignals(int signal);  // this one too: around a call that it would stop
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals();  // blocked is what was before; keeps errno

  // Returns 0, or the errno for which they are not blocked.
  int error() const noexcept { return error_; }

 private:
  BlockedSignals(int how, const sigset_t& signals);

  int error_;
  sigset_t before_;
};

}  // namespace ddprun::os
