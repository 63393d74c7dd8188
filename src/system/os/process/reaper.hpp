// A helper process that cleans up after a ddprun that could not: killed by SIGKILL, crashed, out of memory.
//
// ddprun tells it which workers live; it sleeps, and the kernel wakes it when ddprun has gone. Every ten
// seconds it looks whether ddprun runs (os/process/reaper.hpp). Without "all is well" before, it kills
// the workers' families and every process that carries this launch's marker variable, which also reaches what
// left the family, until a look finds none (a job that a worker submitted carries it too: who belongs to
// another job is left alone), and removes the launch's folder. Without a /proc of our own PID namespace it
// reaches the workers' process groups only. It is in a session of its own, deaf to signals, and shows up as
// "ddprun-reaper".
//
// It shares ddprun's descriptors, so that those of a ddprun that was killed close when the reaper closes
// them: pipes, files and listeners (srun's and a shell's wait for them) at once, TCP connections where
// `holding` says so only when nothing of the workers runs any more. Who is at their other end may then start
// others in their place. Those that ddprun was started with are closed at once, and left as they are.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "facts/stuck_process.hpp"
#include "os/descriptors.hpp"
#include "os/process/child.hpp"

namespace ddprun::os {

// Goes into every worker's environment, with the launch's own random value.
inline constexpr const char* k_agent_variable = "DDPRUN_AGENT_ID";
std::string make_random_id();  // 32 hexadecimal digits from the kernel

struct ReaperDuties {
  // Time between SIGTERM and SIGKILL for watched processes (srun ends its step on SIGTERM and leaves it
  // running on SIGKILL).
  Milliseconds mercy{0};
  // Longest time that connections are held, for workers that SIGKILL does not end.
  Milliseconds holding{0};
  // Folders removed with their contents when ddprun is gone or says that all is well. Missing ones are passed
  // over, so that a folder can be named here before it is made.
  std::vector<std::string> folders{};
  std::string host{};  // ours, as it is told
  // Time that the processes at the other end of links are given, if they end before us when all is well.
  std::optional<Milliseconds> links_end_first{};
};

class Reaper {
 public:
  // Forks; before the first worker, while we are small and have a single thread. Throws Error.
  explicit Reaper(const std::string& agent_id, const ReaperDuties& duties = {});
  Reaper(Reaper&&) = default;
  // Leaves the reaper, without dismiss(), to kill what it watches.
  ~Reaper() = default;

  int pid() const noexcept { return pid_; }  // not to be killed by a sweep, reaped by us

  // Watches a worker that leads its own group or session. Forget it before it is reaped: then its number is
  // free.
  void watch(int leader);
  void forget(int leader);
  // A connection, by its descriptor, to those who do without this ddprun once they have closed it. Forget it
  // before it is closed here. Where ddprun does not run any more (os/process/reaper.hpp) and most of
  // them are closed, it is killed.
  void note_link(int socket);
  void forget_link(int socket);
  // A connection on which others send their output, and end it when their workers have: then too they need
  // this ddprun for nothing but reading it.
  void note_output(int socket);
  void forget_output(int socket);
  // Names a file that is removed with us, unless it holds another text by then; not one of several kilobytes.
  void remove_at_end(const std::string& path, const std::string& text);
  // Dismisses the reaper, which ends without doing anything: all is well. The destructor waits for that, at
  // most a second.
  void dismiss();

 private:
  void tell(char what, int leader);

  Fd writer_;
  int pid_ = -1;
  EndingChild ending_;
};

// Checks in the reaper whether the ddprun that it belongs to runs.
// A ddprun that is stopped (SIGSTOP) or waits in the kernel (state D) cannot report that itself: the reaper
// reports it on its standard error. The kernel keeps its connections. When the other ends continue without it
// they close them, and then it is killed, so that its workers do not run on; so it is when they have ended
// their output, which it does not read. Nothing is reported if a shell has stopped it at a terminal (^Z):
// that shell shows it.

// Connections to other processes of the job.
struct PeerLinks {
  std::vector<int> lifelines;  // closed when the other side does without us
  std::vector<int> outputs;    // output of the other side, which ends it
};

class HeldParent {
 public:
  // `links_end_first`: as in ReaperDuties.
  HeldParent(pid_t pid, std::string host, std::optional<Milliseconds> links_end_first)
      : pid_(pid), host_(std::move(host)), links_end_first_(links_end_first) {}

  // Checks the parent if a check is due. Returns true if it has killed it, as it does not run and the other
  // ends of most of `links` have closed them, or have ended their output.
  bool look(const PeerLinks& links);
  // Waits until there is something to read from `reader`, the next check is due, a link is closed, or one of
  // the signals that `mask` lets through arrives.
  void wait(int reader, const PeerLinks& links, const sigset_t& mask) const;

 private:
  void tell(const std::string& what, const std::string& hint) const;
  bool is_forsaken(const PeerLinks& links, TimePoint now);

  pid_t pid_;
  std::string host_;
  std::optional<Milliseconds> links_end_first_;
  facts::StoppedProcess watch_;
  bool at_terminal_ = false;  // stopped there by its shell
  std::optional<TimePoint> links_closed_;
  bool killed_ = false;
};

}  // namespace ddprun::os
