// A ddprun that a remote launcher started, and an agent that cannot take part and says so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "streams/output_link.hpp"

namespace ddprun::app {

// A ddprun that a remote launcher started without arguments and environment.
// It gets them and executes itself anew.
//
//   ddprun --started-by input                       all of it comes through standard input (ssh)
//   ddprun --started-by ADDRESS,...:PORT/ID [PLACE [KEY-FILE]]
//                               it asks the front end, and proves itself by what the remote launcher passed
//                               (Open MPI), by the key in that file (pbsdsh, pbs_tmrsh), or as agents do

// Does not come back. Throws Error.
[[noreturn]] void become_started_agent(const facts::Snapshot& snapshot);

// An agent that cannot take part says so to the others, and to the ddprun that started it.

// True where nothing is to be started: then nobody else is told or asked anything, whatever goes wrong.
// `arguments` as they were given, `options` as in tell_other_agents().
bool only_looks(const std::vector<std::string>& arguments, const std::optional<options::Options>& options);

// Joins the other agents of the launch only to tell them why this one cannot start anything: they end at
// once, and one of them says it for all. Returns the exit code; nothing where no others take part, or it is
// not clear where they are: then nothing was said. `options` are nothing where the command line could not be
// understood.
std::optional<int> tell_other_agents(const facts::Snapshot& snapshot,
                                     const std::optional<options::Options>& options, const Error& error,
                                     streams::OutputLink& output_link) noexcept;

// Tells the front end that DDPRUN_FRONT_END names the exit code this process is about to end with: not every
// remote launcher passes it on, and the other hosts need not wait for this one. Does nothing where no ddprun
// started this one. Takes no longer than the attempts to connect; what fails costs nothing but the message.
void report_failed_start(const facts::Snapshot& snapshot, int code) noexcept;

// Writes the error to TORCHELASTIC_ERROR_FILE, as an agent does with a worker's failure: ddprun.run() of the
// wheel reads it there, since nothing else has its words where standard error is not its own.
void tell_outer_launcher(const facts::Snapshot& snapshot, const Error& error) noexcept;

}  // namespace ddprun::app
