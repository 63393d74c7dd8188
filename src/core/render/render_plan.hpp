// Output of a plan for a person, a program or a shell.
// Nothing here is computed for show: the values are those of the real run, as far as they are known before
// the agents have met.
#pragma once

#include <string>

#include "facts/snapshot.hpp"
#include "plan/finalise.hpp"

namespace ddprun::render {

std::string key_value_space_name(allocation::KeyValueSpace key_value_space);  // "PMI", "PMIx"; empty for none

// Renders a table of at most 100 columns: what was derived and where each value came from.
std::string render_text(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot);

// Renders one JSON object; the format is described in ddprun(1) and changes only with its "format" number. A
// value that only the rendezvous decides is null.
std::string render_json(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot);

// Renders "export NAME=value" and "unset NAME" lines for this host's first worker. Address and port are the
// first candidates, so that scripts which use them without ddprun still agree.
std::string render_shell(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot);
// Returns a notice if this host has more workers than that one: the others are not started.
std::optional<allocation::Notice> find_missing_ranks(const plan::LaunchPlan& plan);

}  // namespace ddprun::render
