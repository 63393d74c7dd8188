// Stacks of a process as debuggers and Python's own dump show them from outside.
// They serve a rank whose Python stack cannot be had from inside.
//
// py-spy finds the Python stack in the memory of the process; eu-stack (elfutils) and gdb show the calls of C
// and C++. Their output is under tests/data/native_stacks, with their versions.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "status/rank_view.hpp"

namespace ddprun::status {

// Output of Python's faulthandler about all threads when it gets its signal.

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

enum class StackTool { py_spy, eu_stack, gdb };
// Tools in the order in which they are asked, until one shows a stack.
inline constexpr std::array k_stack_tools{StackTool::py_spy, StackTool::eu_stack, StackTool::gdb};

std::string name_of(StackTool tool);  // name of its program, by which it is found
std::vector<std::string> stack_command(StackTool tool, const std::string& program, int pid);

// Adds what the tool has printed of this process: RankView::stack, which replaces what is said without one,
// or `calls` where it shows native ones; and `threads` where there are none. A text that breaks off counts as
// far as it goes. False, and nothing is added, where it shows no call of the main thread that has a name.
bool add_tool_answer(RankView& view, StackTool tool, int pid, std::string_view text);

}  // namespace ddprun::status
