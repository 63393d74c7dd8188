// Reads from disk what a Python worker reads first, before it is needed.
#pragma once

#include <string>

#include "os/process/helper_child.hpp"

namespace ddprun::os {

// Runs `python -c "import torch"` beside everything else, at the lowest priority, without a terminal, output
// or GPUs, so that the files of both are in the page cache afterwards. Nothing tells whether it went well.
// The child may be ended at any time. Throws Error where there can be none.
AnsweringChild start_warm_up(const std::string& python);

}  // namespace ddprun::os
