// --stage: which paths of a launch are copied to its hosts, and what of the workers follows the copies.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "plan/launch_plan.hpp"

namespace ddprun::plan {

// Variables whose paths lead to the copies, as far as they name a path of --stage.
inline constexpr std::array k_staged_variables{"PATH",        "PYTHONPATH",   "PYTHONHOME",
                                               "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH"};

inline constexpr const char* k_stage_origin = "--stage";

// Absolute, in the order of the options.
std::vector<std::string> staged_paths(const options::Options& options, const facts::Snapshot& snapshot);
// Where the copies may lie, best first.
std::vector<std::string> stage_places(const options::Options& options, const facts::Snapshot& snapshot);
// Where they would lie, without the hash that nobody knows yet.
std::vector<staging::Mapping> expect_staged(const options::Options& options, const facts::Snapshot& snapshot);

// A worker's command with the program of the copy: its first word, and the image of --container.
std::vector<std::string> point_command(const LaunchPlan& plan, std::vector<std::string> command);

}  // namespace ddprun::plan
