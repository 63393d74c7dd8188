// Profiles, collectives and modules of the workers of this host, asked of the servers inside them.
// Asked through their doors (worker_inspection.hpp), all at a time, in a child of its own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "os/process/helper_child.hpp"
#include "status/job_status.hpp"

namespace ddprun::inspection {

// Modules that the Pythons of the workers have loaded.

inline constexpr std::size_t k_most_modules_text = std::size_t{64} << 20;

// Asks them through their doors (workers/inspection.hpp), by worker, in a child of its own, within a second;
// its answer is for parse_modules(). Throws Error where there can be no child.
os::AnsweringChild capture_modules_in_child(std::vector<std::string> doors);

// Returns the modules of each worker in the order in which they were loaded; empty for one that has not
// answered. Empty for text that is no such answer.
std::vector<std::vector<std::string>> parse_modules(std::string_view answer);

// Profiles the workers that run for `duration`. `limit`: bytes of the answer of each. The child's answer is a
// line of profile::render_rank() for each of them. Throws Error if there can be no child.
os::AnsweringChild profile_workers_in_child(const status::NodeStatus& node,
                                            const std::vector<std::string>& doors, Milliseconds duration,
                                            int limit);

// Time that the child takes at most beyond the duration.
inline constexpr Milliseconds k_profile_grace{2500};

// Reports whether torch's worker server listens in any of them: else there is nothing to ask.
bool has_collective_traces(const std::vector<std::string>& doors);

// Asks for the flight records, within a second. `ranks`: by door. The answer is for slow::parse_trace(), in
// Unix time, with the newest `most` entries of each rank. No interpreter takes part. Throws Error if there
// can be no child.
os::AnsweringChild capture_traces_in_child(const std::vector<std::string>& doors,
                                           const std::vector<int>& ranks, std::size_t most);

}  // namespace ddprun::inspection
