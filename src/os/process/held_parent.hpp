// Looks, in the reaper, whether the ddprun that it belongs to runs. One that is stopped (SIGSTOP) or waits in
// the kernel (state D) cannot say so itself: it is said on its standard error. Its connections stay, as the
// kernel keeps them; who goes on without it closes them, and then it is killed, so that no worker of it runs
// on. Nothing is said of one that a shell has stopped at a terminal (^Z): that shell shows it.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "supervise/stopped_process.hpp"

namespace ddprun::os {

class HeldParent {
 public:
  // `links_end_first`: as in ReaperDuties.
  HeldParent(pid_t pid, std::string host, std::optional<Milliseconds> links_end_first)
      : pid_(pid), host_(std::move(host)), links_end_first_(links_end_first) {}

  // Where it is time. True: it has been killed, as it does not run and most of `links` are closed by those at
  // their other end.
  bool look(const std::vector<int>& links);
  // Until there is something to read from `reader`, for the next look, for a link that is closed, or for one
  // of the signals that `mask` lets through.
  void wait(int reader, const std::vector<int>& links, const sigset_t& mask) const;

 private:
  void tell(const std::string& what, const std::string& hint) const;
  bool is_forsaken(const std::vector<int>& links, TimePoint now);

  pid_t pid_;
  std::string host_;
  std::optional<Milliseconds> links_end_first_;
  supervise::StoppedProcess watch_;
  bool at_terminal_ = false;  // stopped there by its shell
  std::optional<TimePoint> links_closed_;
  bool killed_ = false;
};

}  // namespace ddprun::os
