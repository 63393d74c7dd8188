// An agent that cannot take part says so to the ddprun that started it.
#pragma once

#include "ddprun/facts/snapshot.hpp"

namespace ddprun {

// Tells the starter that DDPRUN_STARTER names the exit code this process is about to end with: not every
// carrier passes it on, and the other hosts need not wait for this one. Does nothing where no ddprun started
// this one. Takes no longer than the attempts to connect; what fails costs nothing but the message.
void report_failed_start(const Snapshot& snapshot, int code) noexcept;

}  // namespace ddprun
