// An agent that cannot take part says so to the others, and to the ddprun that started it.
#pragma once

#include <optional>

#include "base/error.hpp"
#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "streams/output_link.hpp"

namespace ddprun::app {

// Joins the other agents of the launch only to tell them why this one cannot start anything: they end at
// once, and one of them says it for all. Returns the exit code; nullopt if no others take part, it is not
// clear where they are, or nothing was to be started anyway: then nothing was said. `options` are nullopt if
// the command line could not be understood.
std::optional<int> tell_other_agents(const facts::Snapshot& snapshot,
                                     const std::optional<options::Options>& options, const Error& error,
                                     streams::OutputLink& output_link) noexcept;

// Tells the front end that DDPRUN_FRONT_END names the exit code this process is about to end with: not every
// remote launcher passes it on, and the other hosts need not wait for this one. Does nothing where no ddprun
// started this one. Takes no longer than the attempts to connect; what fails costs nothing but the message.
void report_failed_start(const facts::Snapshot& snapshot, int code) noexcept;

}  // namespace ddprun::app
