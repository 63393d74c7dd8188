// The only place that reads the environment and the state of the machine: everything ddprun plans from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "facts/snapshot.hpp"

namespace ddprun::os {

// Programs of this machine that could start ddprun on other hosts.

// Adds `names`, as PATH finds them, and "ddprun", this program's own file, to Snapshot::programs. mpiexec is
// asked for its version, since every MPI has one of that name: a child process of a few seconds at most.
void capture_remote_launchers(facts::Snapshot& snapshot, const std::vector<std::string>& names);

// Reads the machine once, in about a millisecond: no name look-ups, no vendor libraries, no device is
// opened. What is missing or may not be read is absent from the result; never throws for it. `programs` holds
// python_candidates(); the command's own program is added by capture_program once the command is known.
facts::Snapshot capture_snapshot(int argc, const char* const* argv);

// Returns the processes above this one, parent first, at most 64; ends where /proc shows no more (another
// user's processes under hidepid, the edge of a pid namespace).
std::vector<facts::Ancestor> capture_ancestors();

// Returns the descriptions of sites beside the built-in ones: path -> contents of the files in these folders
// whose names end in .json; folders may be absent. A file that cannot be read or is too long is there and
// empty, so that the plan can complain; in a folder with more than k_site_files_limit of them the first by
// name count.
std::map<std::string, std::string> capture_site_files(const std::vector<std::string>& folders);

}  // namespace ddprun::os
