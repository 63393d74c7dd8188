// Meaning of a store that ddprun hosts and no worker connects to.
#pragma once

#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "base/duration.hpp"

namespace ddprun::lifecycle {

// Reports whether a worker is expected to connect: only Python programs are.
bool starts_python(const std::vector<std::string>& command);
// Reports whether the script may have meant its workers to train together: a function of ddprun.launch() runs
// as often as was asked for.
bool may_train_together(const std::vector<std::string>& command);

// Describes a store without connections: the workers have been running for `waited`, and one has loaded
// torch; others may never mean to connect.
allocation::Notice describe_silent_store(Milliseconds waited);
// Describes the same after all workers have ended with success.
allocation::Notice describe_unused_store(int workers);

}  // namespace ddprun::lifecycle
