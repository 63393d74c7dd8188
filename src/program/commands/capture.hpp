// --capture: a snapshot of this host in a file, without secrets; how such files are written.
#pragma once

#include <string>

#include "facts/snapshot.hpp"
#include "options/options.hpp"

namespace ddprun::commands {

// A file that a command was asked to write.

// Throws Error with that hint.
void write_file(const std::string& path, const std::string& text, const char* hint);

// Returns the exit code. Throws UsageError where the file is there and is no capture.
int write_capture(const facts::Snapshot& snapshot, const options::Options& options);

}  // namespace ddprun::commands
