// Processes that workers leave running when all of them have ended with success: they are stopped too.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "allocation/allocation.hpp"

namespace ddprun::lifecycle {

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
