// The job's time limit in a plan that is shown, and what is done before it and after it.
#pragma once

#include <nlohmann/json.hpp>

#include "allocation/allocation.hpp"
#include "facts/snapshot.hpp"
#include "options/restart_options.hpp"
#include "render/text_table.hpp"

namespace ddprun::render {

void show_time_limit(TextTable& table, const allocation::Allocation& allocation,
                     const options::TimeLimitOptions& limit, const facts::Snapshot& snapshot);
// Returns null if the job has no limit and no option is about it.
nlohmann::ordered_json time_limit_json(const allocation::Allocation& allocation,
                                       const options::TimeLimitOptions& limit,
                                       const facts::Snapshot& snapshot);

}  // namespace ddprun::render
