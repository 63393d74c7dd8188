// argv and the PET_ variables as options, or as a text to print instead of running.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/plan/options.hpp"

namespace ddprun {

// --help, --version, --print-completion: for stdout, and there is nothing to run.
struct Printed {
  std::string text;  // ends with a line end
  int exit_code = 0;
};

// `arguments` is argv without the program's name. An option on the command line wins over its PET_ variable,
// which is then not read. Throws UsageError naming the option or the variable.
std::variant<Options, Printed> parse_command_line(const std::vector<std::string>& arguments,
                                                  const Environment& environment);

// At most 100 columns.
std::string render_help();
// `shell` is "bash", "zsh" or "tcsh"; the text is to be evaluated by that shell.
std::string render_completion(const std::string& shell);

}  // namespace ddprun
