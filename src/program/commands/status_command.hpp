// --status, --stacks, --profile, --restart, --drain: asks the ddprun processes of this user on this host.
#pragma once

#include <string>

#include "options/options.hpp"

namespace ddprun::commands {

// Prints to standard output until there is no more to tell, or once without --watch; returns the exit code.
// Throws Error if no ddprun answers, or none with the job id or process number that the user named.
int show_jobs(const options::Options& options, const std::string& host);
// Does the same for --stacks: shows where the ranks are, once; or were, of a folder, which is preferred to a
// job of that name.
int show_stacks(const options::Options& options, const std::string& host);
// Profiles one job, prints the table and writes the files that -o names.
int profile_job(const options::Options& options, const std::string& host);
// Asks one job to restart or to drain a node, and prints what follows. Throws Error if it declines.
int restart_job(const options::Options& options, const std::string& host);

}  // namespace ddprun::commands
