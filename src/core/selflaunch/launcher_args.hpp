// --launcher-args: options of the user's for the program that starts ddprun on the other hosts.
#pragma once

#include <string>
#include <vector>

#include "options/options.hpp"

namespace ddprun::selflaunch {

inline constexpr const char* k_launcher_args_hint = "as in --launcher-args '--mpi=pmix --export=ALL,X=1'";

// Returns the words for this remote launcher; no origin without the option. Throws UsageError for one that
// ddprun sets itself, or that keeps agents from their task: it then says why.
Sourced<std::vector<std::string>> read_launcher_args(const options::Options& options,
                                                     const std::string& remote_launcher);

}  // namespace ddprun::selflaunch
