// Program that execvp would start for a word, found without starting it.
#pragma once

#include <optional>
#include <string>

#include "facts/program.hpp"

namespace ddprun::os {

// Returns the program that `word` of a command names. A word with a slash is that file; else a Python script
// or Python file of this name in the working directory, or the first executable file of this name on PATH, is
// meant: a name that ends in .py is looked for here first, any other on PATH first. Without PATH: /bin and
// /usr/bin, as in execvp(3).
facts::ProgramFacts capture_program(const std::string& word, const std::optional<std::string>& path_variable);

// The first line of a script, by which the kernel starts it.
struct FirstLine {
  std::string text;                  // after "#!"; a carriage return at its end stays. Empty: there is none
  std::string interpreter;           // its first word
  bool interpreter_missing = false;  // no such file on this host
};
FirstLine capture_first_line(const std::string& path);

}  // namespace ddprun::os
