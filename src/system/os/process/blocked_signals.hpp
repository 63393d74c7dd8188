// Signals that wait while this lives.
#pragma once

#include <signal.h>

namespace ddprun::os {

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
