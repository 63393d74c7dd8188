// Answer of ddprun's module in a worker (workers/inspection/ddprun_inspection.py).
#pragma once

#include <string_view>

#include "status/rank_view.hpp"

namespace ddprun::status {

// Adds the stacks, the exception that is on its way and whether the script is over. False, and nothing is
// added, for what is no such answer.
bool add_module_answer(RankView& view, std::string_view json);

// Renders the stacks of all threads, and the exception that is on its way in each, whole. Empty for text that
// is no such answer.
std::string render_threads(std::string_view json);

}  // namespace ddprun::status
