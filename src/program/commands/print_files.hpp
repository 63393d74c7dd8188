// Commands that print or write what ddprun knows, and end: --dry-run, --timeline, --capture.
#pragma once

#include <string>

#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "plan/finalise.hpp"

namespace ddprun::commands {

// --timeline: the events of a file as a picture.

// Returns the text for standard output; empty if it was written to a file. Throws Error.
std::string draw_timeline(const options::Options& options);

// --dry-run: the plan of a launch, in the form that was asked for.

// Returns the exit code.
int print_plan(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot);

// --capture: a snapshot of this host in a file, without secrets; how such files are written.

// A file that a command was asked to write.

// Throws Error with that hint.
void write_file(const std::string& path, const std::string& text, const char* hint);

// Returns the exit code. Throws UsageError where the file is there and is no capture.
int write_capture(const facts::Snapshot& snapshot, const options::Options& options);

}  // namespace ddprun::commands
