// Looks at a process that SIGKILL has not ended.
#pragma once

#include "supervise/stuck_process.hpp"

namespace ddprun::os {

// Of a process with threads the one that sleeps uninterruptibly counts: its leader may have ended long ago.
supervise::StuckProcess capture_stuck_process(int pid);

}  // namespace ddprun::os
