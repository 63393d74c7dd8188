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

// Reader of the dumps of --stacks-every and of torch's flight records, for --stacks FOLDER.

// Returns the text of the newest dumps in a folder of --logs (that folder, the one of a run in it, or stacks
// in that), then of torch's flight records in it, or in the one of its last attempt: files of one name that
// ends with the rank, as pickle or JSON. Throws UsageError if there are none.
std::string describe_stack_folder(const std::string& folder);

}  // namespace ddprun::commands
