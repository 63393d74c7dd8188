// Looks at a process that SIGKILL has not ended.
#pragma once

#include "facts/stuck_process.hpp"

namespace ddprun::os {

// Captures a process that SIGKILL has not ended. Of several threads the one that sleeps uninterruptibly
// counts: the leader may have ended long ago.
facts::StuckProcess capture_stuck_process(int pid);

}  // namespace ddprun::os
