// Options from the places below the command line: variables, configuration files and sites' profiles.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command_line/option_table.hpp"
#include "facts/lined_json.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::command_line {

// Options that are not on the command line: configuration files and sites' profiles.
// Also the text of --print-config, which shows them.

// Layers of options, the one that counts more first.
using OptionLayers = std::vector<std::vector<facts::OptionText>>;

// Returns "DDPRUN_MAX_RESTARTS". Empty for options that print something and end, and for the two names that
// ddprun itself uses between its processes, DDPRUN_HOSTS and DDPRUN_NODE_RANK.
std::string own_variable_of(const OptionEntry& option);

// Throws UsageError for a value that would make a query of every run: --check in a file or a variable.
void refuse_query(const OptionEntry& option, const Sourced<std::string>& given);

// The text of an option in a file, as the command line would have it: true is the option without a value.
// Nothing where it is off. Throws UsageError where it needs a value and has none.
std::optional<std::string> configured_value(const OptionEntry& option, const facts::OptionText& text);

// Throws UsageError for a name that is no option, or one of an option that belongs on the command line.
const OptionEntry& find_configured(const facts::OptionText& text);

// Reads the configuration files of this user and machine. A file that is there and cannot be read is an
// error.
OptionLayers read_configuration(const facts::Snapshot& snapshot);

// Renders the output of --print-config: each option with its value and source, then the files that were
// looked for.
std::string render_config(const options::Options& options, const std::vector<std::string>& files);

// Options from the places below the command line.
// These are the DDPRUN_ and PET_ variables, configuration files and site profiles.

// Sets one option and notes where it was given. Throws UsageError.
void apply_option(Draft& draft, const OptionEntry& option, const Sourced<std::string>& given);

// Apply each place in turn: options given above are not looked at below. Throw UsageError.
void apply_variables(Draft& draft, const facts::Environment& environment);
void apply_layers(Draft& draft, const facts::Environment& environment, const OptionLayers& layers);

// DDPRUN_ variables that name no option, but nearly one.
void warn_of_unknown_variables(Draft& draft, const facts::Environment& environment);

}  // namespace ddprun::command_line
