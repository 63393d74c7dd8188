// Meaning of a command's words on this machine; the active Python and its torch, as far as files show.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::facts {

// Meaning of a command's words on this machine, and the active Python.

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

// Python and torch of a host's workers, as far as files show them.

// The Python of the virtual or conda environment that ddprun itself was started from by its path.
// `pbsdsh /home/u/venv/bin/ddprun` does so where nothing of the submitter's environment is left.

inline constexpr const char* k_own_python = "python beside ddprun";  // in Snapshot::programs

struct PythonFacts {
  std::string version;  // "3.11"; empty: not known
  std::string torch;    // "2.13.0+cpu"; empty: not found
  friend bool operator==(const PythonFacts&, const PythonFacts&) = default;
};

// Parses the number in "python3.11", an interpreter's file or a folder of lib.
std::optional<std::string> parse_python_name(std::string_view name);
// Parses __version__ in the text of torch/version.py.
std::optional<std::string> parse_torch_version(std::string_view text);

// pyvenv.cfg: "version = 3.11.2", "home = /usr/bin", "include-system-site-packages = true".
struct VirtualEnvironment {
  std::string version;  // "3.11"
  bool system_packages = false;
};
VirtualEnvironment parse_virtual_environment(std::string_view text);

}  // namespace ddprun::facts
