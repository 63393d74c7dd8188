// Signals that wait for our consent before a child gets them.
// The child is traced for them alone (ptrace(2), PTRACE_SEIZE), and no other debugger can attach to it
// meanwhile.
//
// Its main thread only, which is the one that the kernel prefers for a signal to the process. The child runs
// as before, its exec, its children and its system calls included, and is let go when this process ends.
#pragma once

#include <optional>

namespace ddprun::os {

// Begins to hold the child's signals; false if the kernel refuses: one that is traced already, a sandbox,
// kernel.yama.ptrace_scope above 1.
bool hold_signals(int child);
// Returns a signal that waits, as SIGCHLD announces; the child stands still until it is released. Never
// waits.
std::optional<int> next_held_signal(int child);
void release_signal(int child, int number);  // 0: the child does not get it

}  // namespace ddprun::os
