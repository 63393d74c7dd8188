// Options from the places below the command line.
// These are the DDPRUN_ and PET_ variables, configuration files and site profiles.
#pragma once

#include "command_line/config.hpp"
#include "command_line/option_table.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::command_line {

// Sets one option and notes where it was given. Throws UsageError.
void apply_option(Draft& draft, const OptionEntry& option, const Sourced<std::string>& given);

// Apply each place in turn: options given above are not looked at below. Throw UsageError.
void apply_variables(Draft& draft, const facts::Environment& environment);
void apply_layers(Draft& draft, const facts::Environment& environment, const OptionLayers& layers);

// DDPRUN_ variables that name no option, but nearly one.
void warn_of_unknown_variables(Draft& draft, const facts::Environment& environment);

}  // namespace ddprun::command_line
