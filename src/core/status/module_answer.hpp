// Answer of ddprun's module in a worker (workers/inspection/ddprun_inspection.py), and its Python threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "status/rank_view.hpp"

namespace ddprun::status {

// The Python threads of a rank: which of them matters, and what its stack says.

struct PythonThread {
  std::string name{};
  std::vector<Frame> stack{};  // innermost first
  bool main = false;
  std::int64_t id = 0;       // the system's; 0: not known
  std::int64_t joins = 0;    // the thread whose end it waits for (Thread.join)
  std::string store_call{};  // RankView::store_call
};

// Reports whether the file is the user's own: outside installed packages and the standard library.
bool is_own(const Frame& frame);

// Sets the stack, its thread and the others. The thread that matters is the main one, unless that waits for
// the end of another, or for another that itself waits for other ranks.
void set_threads(RankView& view, std::vector<PythonThread> threads);

// Adds the stacks, the exception that is on its way and whether the script is over. False, and nothing is
// added, for what is no such answer.
bool add_module_answer(RankView& view, std::string_view json);

// Renders the stacks of all threads, and the exception that is on its way in each, whole. Empty for text that
// is no such answer.
std::string render_threads(std::string_view json);

}  // namespace ddprun::status
