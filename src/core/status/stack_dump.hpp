// Output of Python's faulthandler about all threads when it gets its signal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "status/rank_view.hpp"

namespace ddprun::status {

// Adds the stacks; the signal goes to the main thread, which faulthandler calls the current one. False, and
// nothing is added, where the text has no thread. Paths come as faulthandler writes them.
//
//   Thread 0x00007f (most recent call first):
//     File "/x/loader.py", line 12 in fetch
//   Current thread 0x00007e (most recent call first):
//     File "/x/train.py", line 8 in step
bool add_stack_dump(RankView& view, std::string_view text);

// Returns the last crash of a dump as lines: "Fatal Python error: Segmentation fault", then the stack of the
// thread that had it, or of the main thread if that one ran no Python. Empty if none did.
std::vector<std::string> crash_lines(std::string_view text);

}  // namespace ddprun::status
