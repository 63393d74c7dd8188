// --timeline: the events of a file as a picture.
#pragma once

#include "options/options.hpp"

namespace ddprun::commands {

// Returns the text for standard output; empty if it was written to a file. Throws Error.
std::string draw_timeline(const options::Options& options);

}  // namespace ddprun::commands
