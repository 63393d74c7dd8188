// Collectives that the workers of this node have entered lately.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "os/process/answering_child.hpp"

namespace ddprun::os {

// Reports whether torch's worker server listens in any of them: else there is nothing to ask.
bool has_collective_traces(const std::vector<std::string>& doors);

// Asks torch's worker servers for their flight records through their doors (worker_inspection.hpp), in a
// child of its own, within a second. `ranks`: by door. The answer is for slow::parse_trace(), in Unix time,
// with the newest `most` entries of each rank. No interpreter takes part. Throws Error if there can be no
// child.
AnsweringChild capture_traces_in_child(std::vector<std::string> doors, std::vector<int> ranks,
                                       std::size_t most);

}  // namespace ddprun::os
