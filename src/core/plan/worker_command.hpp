// The words a worker is started with, and where its paths lead once they are copied (--stage).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "plan/finalise.hpp"

namespace ddprun::plan {

// Reports whether a Python starts the command: no executable that is not Python's, and not after --no-python.
bool needs_python(const options::Options& options, facts::ProgramKind kind);

// The active Python, "python3" where the snapshot never looked for one. Throws UsageError where PYTHON_EXEC
// names none, and Error where none is on PATH.
std::string find_python(const facts::Snapshot& snapshot);
// Returns the Python inside the container of --container: PYTHON_EXEC as it is, else "python3".
std::string find_python_inside(const facts::Snapshot& snapshot);

// Returns where `word` would be if the script of a PBS job had not started in the home directory; empty if it
// did not.
std::string path_where_submitted(const std::string& word, const facts::Snapshot& snapshot);

// Returns the kind of the command's first word on the snapshot's machine. Throws Error naming the host if it
// is not there or cannot be started; for a snapshot that never looked, the name decides. With --container
// only FILE.py is Python's, and the program looked for here is the one that starts containers.
facts::ProgramKind find_program_kind(const options::Options& options, const facts::Snapshot& snapshot);

// Makes `python -u [-m] SCRIPT ARGUMENTS`, or the program as it is: after --no-python, and if the file is an
// executable that is not Python's. --run-path wins over --no-python and --module, as in torchrun. Every
// "${local_rank}" in a word becomes the number. With --no-use-env the script's first argument is
// --local-rank=N, the spelling of torch 2. The words of --container come before all. `options.command` must
// not be empty.
std::vector<std::string> make_worker_command(const options::Options& options, const std::string& python,
                                             facts::ProgramKind kind, LocalRank local_rank);

bool starts_python(const std::vector<std::string>& command);

// Returns what is odd about the command and how to get what was probably meant: a Python that is found only
// because the environment that a variable names is not on PATH, or a Python that the command names beside
// PYTHON_EXEC.
std::optional<allocation::Notice> find_odd_python(const options::Options& options,
                                                  const facts::Snapshot& snapshot);
// --local_rank with a number behind the script, of `workers` in all.
std::optional<allocation::Notice> find_fixed_local_rank(const options::Options& options, int workers);

// Reports whether that Python reads PYTHONPATH: not after -I or -E.
bool takes_python_path(const std::vector<std::string>& command);

// ---- --stage: paths that are copied to the hosts, and their effect on the workers

// Variables whose paths lead to the copies, as far as they name a path of --stage.
inline constexpr std::array k_staged_variables{"PATH",        "PYTHONPATH",   "PYTHONHOME",
                                               "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH"};

inline constexpr const char* k_stage_origin = "--stage";

// Returns the paths, absolute, in the order of the options.
std::vector<std::string> staged_paths(const options::Options& options, const facts::Snapshot& snapshot);
// Returns the folders that copies may be put in, best first.
std::vector<std::string> stage_places(const options::Options& options, const facts::Snapshot& snapshot);
// Returns the expected places of the copies, without the hash, which is not known yet.
std::vector<staging::Mapping> expect_staged(const options::Options& options, const facts::Snapshot& snapshot);

// Returns a worker's command with the program of the copy: its first word, and the image of --container.
std::vector<std::string> point_command(const LaunchPlan& plan, std::vector<std::string> command);

inline constexpr const char* k_checkpoint_origin = "--checkpoint-memory";

}  // namespace ddprun::plan
