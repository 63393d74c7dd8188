// Common parts of all forked helpers of this process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <vector>

#include "base/exit_status.hpp"
#include "os/fd.hpp"

namespace ddprun::os {

// Forks a helper that runs `call` and leaves with its code, or with 1 when it throws: without any destructor
// or exit handler. It keeps every signal blocked, since our handlers must not run in it, and dies with its
// parent. Only for processes with a single thread. -1 and errno when there can be no child.
pid_t fork_helper(const std::function<int()>& call);

// Forks one that has to clean up after this process, however that ends: it outlives it, in a session of its
// own, is shown as `name` (15 letters), and has no descriptors but those `kept`, with which `call` is called
// in their order.
pid_t fork_outliving_helper(const char* name, const std::vector<int>& kept,
                            const std::function<int(const std::vector<int>& kept)>& call);

// Kills and reaps it, and says how it ended: before that, or by the SIGKILL. Where another call has reaped
// it, its number may be another process', a worker's even: what `process`, its pidfd, names cannot change.
// Without one (before Linux 5.3) it is left alone when it is not our child any more. nullopt: it was reaped
// already, or the kernel holds it, inside a driver say, for longer than a second.
std::optional<ExitStatus> end_helper(pid_t child, const Fd& process);

// Returns the helpers that are not reaped yet: processes of ours, which no worker has left behind.
std::vector<int> running_helpers();
void note_helper(pid_t child);    // one that was forked otherwise
void forget_helper(pid_t child);  // once it is reaped; reap() does this itself

}  // namespace ddprun::os
