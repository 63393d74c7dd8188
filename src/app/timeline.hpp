// --timeline: the events of a file as a picture.
#pragma once

#include "ddprun/options/options.hpp"

namespace ddprun::app {

// Text for standard output; empty where it was written to a file. Throws Error.
std::string draw_timeline(const options::Options& options);

}  // namespace ddprun::app
