// Files that several hosts write together without a lock.
#pragma once

#include <string>

namespace ddprun::logs {

// Writes this agent's part, and the index of all parts that are there: the agent of rank 0 always, the others
// where that has done so. Whoever writes it looks again for what came meanwhile, so that the one who is last
// has seen everything. Throws Error.
void write_index(const std::string& run_folder, int first_rank, const std::string& launch_id,
                 const std::string& part);

}  // namespace ddprun::logs
