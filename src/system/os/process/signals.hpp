// Signals to ddprun as values, read from a descriptor, and signals that wait while an object lives.
#pragma once

#include <signal.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "os/descriptors.hpp"

namespace ddprun::os {

// Signals to ddprun as values, read from a descriptor; no handler ever runs.

struct SignalEvent {
  int number = 0;
  int sender_pid = 0;  // 0: the kernel (a key at the terminal), or a process we cannot see
  int code = 0;        // si_code; for SIGCHLD one of CLD_*
  int sender_uid = 0;
  // True if it came from a process that was above us when we began (its end does not change that), or from a
  // namespace that we cannot see: slurmstepd, pbs_mom, a container's engine; also the shell whose own `kill`
  // was used. A key's signal is not.
  bool from_above = false;
  bool is_from_key() const;
  friend bool operator==(const SignalEvent&, const SignalEvent&) = default;
};

// Returns the signals that a launcher has to handle: requests to stop, advance warnings (a limit of CPU time
// and the real-time signals are some), job control, its children, and signals that would end it without being
// a request. SIGTTIN and SIGTTOU keep their defaults: in the background we are stopped as any program is.
std::vector<int> handled_signals();

// Reports whether workers get it too, when it is no request to stop: not what our own timers and limits send.
bool is_passed_on(const SignalEvent& event);

// Describes the sender: "sent by bash, pid 77", "sent by pid 77 of uid 0"; empty for a key, and for a sender
// above us: that is the scheduler's daemon or a launcher, at the request of any user.
std::string describe_sender(const SignalEvent& event);

// Returns those of `signals` that we were started with ignored (nohup: SIGHUP). They stay ignored here and in
// the workers. SIGINT and SIGQUIT are never among them: a shell's `&` in a script ignores both, and a user
// who sends one with kill means it.
std::vector<int> capture_ignored_signals(const std::vector<int>& signals);

// Takes `signals` (less what we were started with ignored) from the process while it lives; SIGPIPE is
// ignored. One at a time, in the only thread. spawn() gives children the defaults back.
class SignalSource {
 public:
  // Throws Error when the kernel refuses.
  explicit SignalSource(const std::vector<int>& signals);
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;
  ~SignalSource();

  const Fd& descriptor() const noexcept { return descriptor_; }  // readable when a signal has come
  std::optional<SignalEvent> read();                             // never waits
  // Keeps the signals blocked, since the process is about to end: a late one does not change its exit code.
  void keep_blocked() noexcept;

 private:
  struct Saved;
  bool is_from_above(const SignalEvent& event) const;

  std::unique_ptr<Saved> saved_;
  std::vector<int> above_;  // when we began: PBS kills the job's shell before it asks us a second time
  Fd descriptor_;
};

// Signals that wait while an object lives, in this process or before they reach a worker.

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
