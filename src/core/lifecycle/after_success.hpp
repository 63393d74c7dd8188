// Notices after success: a store that no worker used, and processes that workers left running.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "allocation/allocation.hpp"
#include "base/duration.hpp"

namespace ddprun::lifecycle {

// Meaning of a store that ddprun hosts and no worker connects to.

// Reports whether a worker is expected to connect: only Python programs are.
bool starts_python(const std::vector<std::string>& command);
// Reports whether the script may have meant its workers to train together: a function of ddprun.launch() runs
// as often as was asked for.
bool may_train_together(const std::vector<std::string>& command);

// Describes a store without connections: the workers have been running for `waited`, and one has loaded
// torch; others may never mean to connect.
allocation::Notice describe_silent_store(Milliseconds waited);
// Describes the same after all workers have ended with success.
allocation::Notice describe_unused_store(int workers);

// Processes that workers leave running when all of them have ended with success: they are stopped too.

struct Survivor {
  std::string name;
  int pid = 0;
};

// False for a helper of Python or torch, which ends by itself once its worker has. `command_line`: as in
// /proc/PID/cmdline, empty for a process that has ended.
bool is_left_running(std::string_view command_line);

// "stopping 2 processes that workers left running on n1: aws (pid 4711), sh (pid 4712)"
allocation::Notice describe_survivors(const std::vector<Survivor>& survivors, const std::string& host);

}  // namespace ddprun::lifecycle
