// The words a worker is started with.
#pragma once

#include <string>
#include <vector>

#include "ddprun/base/ids.hpp"
#include "ddprun/facts/program_kind.hpp"
#include "ddprun/plan/options.hpp"

namespace ddprun {

// `python -u [-m] SCRIPT ARGUMENTS`, or the program as it is: after --no-python, and where the file is an
// executable that is not Python's. --run-path wins over --no-python and --module, as in torchrun. Every
// "${local_rank}" in a word becomes the number. `options.command` must not be empty.
std::vector<std::string> make_worker_command(const Options& options, const std::string& python,
                                             ProgramKind kind, LocalRank local_rank);

}  // namespace ddprun
