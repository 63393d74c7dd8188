// The Python threads of a rank: which of them matters, and what its stack says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "status/rank_view.hpp"

namespace ddprun::status {

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

}  // namespace ddprun::status
