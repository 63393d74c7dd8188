// A process that SIGKILL has not ended, in words.
#pragma once

#include <string>

namespace ddprun::facts {

struct StuckProcess {
  int pid = 0;
  std::string name;
  char state = '?';          // proc(5); of a thread in D where there is one
  std::string wait_channel;  // the kernel's function in which that thread sleeps; empty where it is not shown
  int tracer = 0;            // pid; 0: none
  std::string tracer_name;
};

// Returns "pid 4711 (python3) is in uninterruptible sleep (state D) in nvidia_close".
std::string describe(const StuckProcess& process);
std::string hint_for(const StuckProcess& process, const std::string& host);

}  // namespace ddprun::facts
