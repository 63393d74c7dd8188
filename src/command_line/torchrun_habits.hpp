// Options of other launchers that people type from habit.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::command_line {

// What to do here instead of `word` ("-np", "--num-gpus"); nothing for a word no launcher is known to have.
std::optional<std::string> advice_for_habit(std::string_view word);

}  // namespace ddprun::command_line
