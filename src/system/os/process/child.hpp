// A process we started: how it ended, and signals that can only reach what is still ours.
//
// A process that has ended keeps its number, and its group keeps its own, until it is reaped. So `ending()`
// looks without reaping, signals to the process and its group stay safe, and `reap()` comes last: after it
// nothing is ever sent again.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/exit_status.hpp"
#include "os/descriptors.hpp"
#include "os/process/bind_self.hpp"

namespace ddprun::os {

class Child {
 public:
  // Makes a child, called by spawn(). `leads_group`: the number is also that of a process group (or session)
  // of its own. `start`: where it leaves the result of its start.
  Child(int pid, Fd pidfd, bool leads_group, std::shared_ptr<SharedStart> start = {});

  int pid() const noexcept { return pid_; }
  // Returns a descriptor that is readable once the process has ended, also while a tracer holds that back;
  // empty before Linux 5.3, where SIGCHLD says when to look.
  const Fd& pidfd() const noexcept { return pidfd_; }

  // Returns its end; nullopt while it runs, and while a tracer (strace, gdb) still holds its ending back:
  // SIGCHLD comes when that one has collected it, detached or ended. Does not reap; the answer stays after
  // reaping. A program that could not be started ends at once with ExitStatus::Kind::not_started.
  std::optional<ExitStatus> ending();
  // Takes the signal that stopped it, once for each stop (SIGCHLD tells when to look; a pidfd does not).
  std::optional<int> take_stop();
  // Gives the number back to the system once the process has ended; nothing while it runs.
  std::optional<ExitStatus> reap();

  // Returns the kernel's refusal of its binding; nullopt until it has asked, a moment after it was made.
  std::optional<BindingRefusal> refusal() const;
  void release();  // SpawnRequest::hold: goes on to its program

  // Sends a signal; this and the next ones return false when no process was reached. The family: its group
  // and session, and everything below any of these.
  bool send_signal(int signal);
  bool send_signal_to_group(int signal);
  bool send_signal_to_family(int signal);

 private:
  int pid_;
  Fd pidfd_;
  bool leads_group_;
  bool reaped_ = false;
  std::optional<ExitStatus> ending_;
  std::shared_ptr<SharedStart> start_;
};

// A child of ours that was asked to end. It is waited for where this is destroyed, a second at most, and
// reaped: what is left to do is done meanwhile.
class EndingChild {
 public:
  EndingChild() = default;
  explicit EndingChild(int pid);
  EndingChild(EndingChild&& other) noexcept;
  EndingChild& operator=(EndingChild&& other) noexcept;
  ~EndingChild() { wait(); }

 private:
  void wait() noexcept;

  int pid_ = -1;
  Fd pidfd_;
};

// Reaps exactly this child without waiting; nullopt when it runs or is no child of ours.
std::optional<ExitStatus> reap(int pid);
std::optional<ExitStatus> reap(const Fd& pidfd);
// Opens a pidfd; empty before Linux 5.3 or when there is no such process.
Fd open_pidfd(int pid);

// Orphans below us become our children instead of init's. False where the kernel refuses.
bool adopt_orphans();
// Reaps adopted orphans that have ended; `known` are the children that others reap. One system call if none
// has ended. Without a /proc of our own, orphans behind an ended known child stay.
void reap_orphans(const std::vector<int>& known);

// Kills, in one round, everything below us but `except` and what is below those, reaping what has ended and
// is ours. Returns how many were still there; call again until 0, since a killed process takes a moment and a
// new one may have been forked behind our back. Every Child not yet reaped has to be among `except`.
std::size_t kill_descendants(const std::vector<int>& except);

}  // namespace ddprun::os
