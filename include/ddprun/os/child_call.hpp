// Calls into other people's libraries that may wait for ever, or end the process they are in: they run in a
// forked child that is killed at the deadline.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ddprun/base/duration.hpp"

namespace ddprun {

struct ChildAnswer {
  std::optional<std::string> bytes;  // what the function returned
  std::string problem;  // else why there is nothing: "no answer within 3 s", "ended by signal 11"
  bool timed_out = false;
};

// Costs a fork (well below a millisecond in a small process) and blocks for at most `deadline`. Only for
// processes with a single thread. The child leaves without running any destructor or exit handler, and dies
// with its parent. An answer longer than `limit` bytes is a problem.
ChildAnswer call_in_child(const std::function<std::string()>& function, Milliseconds deadline,
                          std::size_t limit = 2 << 20);

}  // namespace ddprun
