// Checks in the reaper whether the ddprun that it belongs to runs.
// A ddprun that is stopped (SIGSTOP) or waits in the kernel (state D) cannot report that itself: the reaper
// reports it on its standard error. The kernel keeps its connections. When the other ends continue without it
// they close them, and then it is killed, so that its workers do not run on; so it is when they have ended
// their output, which it does not read. Nothing is reported if a shell has stopped it at a terminal (^Z):
// that shell shows it.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "facts/stuck_process.hpp"

namespace ddprun::os {

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
