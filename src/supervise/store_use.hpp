// What it means where no worker connects to the store that ddprun hosts for them.
#pragma once

#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "base/duration.hpp"

namespace ddprun::supervise {

// Whether a worker is expected to connect: of other programs nothing is known.
bool starts_python(const std::vector<std::string>& command);
// Whether it is a script that may have meant to train together: a function of ddprun.launch() runs as often
// as was asked for.
bool may_train_together(const std::vector<std::string>& command);

// The workers have been running for `waited`, and one has loaded torch: others may never mean to connect.
allocation::Notice describe_silent_store(Milliseconds waited);
// All workers have ended with success.
allocation::Notice describe_unused_store(int workers);

}  // namespace ddprun::supervise
