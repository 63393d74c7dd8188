// Modules that the Pythons of the workers have loaded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "os/process/answering_child.hpp"

namespace ddprun::inspection {

inline constexpr std::size_t k_most_modules_text = std::size_t{64} << 20;

// Asks them through their doors (workers/inspection.hpp), by worker, in a child of its own, within a second;
// its answer is for parse_modules(). Throws Error where there can be no child.
os::AnsweringChild capture_modules_in_child(std::vector<std::string> doors);

// Returns the modules of each worker in the order in which they were loaded; empty for one that has not
// answered. Empty for text that is no such answer.
std::vector<std::vector<std::string>> parse_modules(std::string_view answer);

}  // namespace ddprun::inspection
