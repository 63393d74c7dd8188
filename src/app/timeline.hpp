// --timeline: the events of a file as a picture.
#pragma once

#include "ddprun/options/options.hpp"

namespace ddprun {

// Text for standard output; empty where it was written to a file. Throws Error.
std::string draw_timeline(const Options& options);

}  // namespace ddprun
