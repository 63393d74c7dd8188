// Meaning of a command's words on this machine, and the active Python.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::facts {

using Environment = std::map<std::string, std::string>;

std::string variable_or_empty(const Environment& environment, const char* name);

enum class ProgramKind {
  missing,         // no such file here or on PATH
  directory,       // names a directory
  not_executable,  // a file that may not be executed and is no Python script
  python_file,     // *.py, or a file without execute permission whose first line asks for Python
  executable,      // can be started as it is
};

struct ProgramFacts {
  ProgramKind kind = ProgramKind::missing;
  // The file that was found. When missing: an executable file in the working directory that PATH does not
  // reach (execvp does not look there), else empty.
  std::string path;
  // The beginning of what it prints about itself, if it was asked for: distinguishes one mpiexec from
  // another.
  std::string version{};
  friend bool operator==(const ProgramFacts&, const ProgramFacts&) = default;
};

std::string to_string(ProgramKind kind);  // "missing", "directory", "not executable", "python file", ...
std::optional<ProgramKind> parse_program_kind(std::string_view text);

// Returns the kind of a file found for `word`; `head` is the beginning of its contents (128 bytes are
// enough).
ProgramKind judge_program(std::string_view word, bool directory, bool may_execute, std::string_view head);

// Returns the names of the active Python, best first: PYTHON_EXEC alone when set (the user's choice, as for
// torchrun); else `python3` and `python` on PATH.
std::vector<std::string> python_candidates(const Environment& environment);

// Returns `python` if PATH leads to that of VIRTUAL_ENV or CONDA_PREFIX; else the path of the first candidate
// that `programs` knows as executable.
std::optional<std::string> choose_python(const Environment& environment,
                                         const std::map<std::string, ProgramFacts>& programs);

}  // namespace ddprun::facts
