// Options that do nothing without another one.
// Typed, they are refused or reported to have no effect. In a file or a variable they wait for the one that
// they belong to.
#pragma once

#include <string>

#include "command_line/option_table.hpp"

namespace ddprun::command_line {

// On the command line, not in a file or a variable.
bool is_typed(const Draft& draft, const std::string& name);

// Throws UsageError for an option that asks for nothing without another one.
void check_requirements(const Draft& draft);

// Options that were typed, and nothing comes of.
void warn_of_no_effect(Draft& draft);

}  // namespace ddprun::command_line
