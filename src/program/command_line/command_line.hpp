// argv and the PET_ variables as options, or as a text to print instead of running.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "command_line/lower_places.hpp"
#include "facts/snapshot.hpp"
#include "options/options.hpp"

namespace ddprun::command_line {

// --help, --version, --print-completion: for stdout, and there is nothing to run.
struct Printed {
  std::string text;  // ends with a line end
  int exit_code = 0;
};

// Sentences of a launch beside its options.
struct Advice {
  std::vector<allocation::Notice> warnings;  // probable mistakes, for every user to see
  std::string where_missing;                 // the hint if there is no such script; empty: the usual one
};

// Parses `arguments`, argv without the program's name. What counts most: the command line, the DDPRUN_
// variable, the PET_ variable, then `layers` in their order; what is given above is not looked at below.
// Throws UsageError naming the option, the variable, or the file and the line.
std::variant<options::Options, Printed> parse_command_line(const std::vector<std::string>& arguments,
                                                           const facts::Environment& environment,
                                                           const OptionLayers& layers = {},
                                                           Advice* advice = nullptr);

// Renders the help in at most 80 columns and 24 lines.
std::string render_help();
// Renders all options in at most 80 columns.
std::string render_help_all();
// Renders a script that `shell` ("bash", "zsh", "fish" or "tcsh") evaluates.
std::string render_completion(const std::string& shell);

}  // namespace ddprun::command_line
