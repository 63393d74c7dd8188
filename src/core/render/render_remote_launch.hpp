// Output of --dry-run for a ddprun that starts itself on other hosts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "allocation/allocation.hpp"
#include "facts/snapshot.hpp"
#include "options/fault_options.hpp"
#include "render/text_table.hpp"
#include "selflaunch/remote_launcher.hpp"

namespace ddprun::render {

std::string render_text(const selflaunch::SelfLaunchPlan& plan, const facts::Snapshot& snapshot,
                        const options::TimeLimitOptions& limit);
std::string render_json(const selflaunch::SelfLaunchPlan& plan, const facts::Snapshot& snapshot,
                        const options::TimeLimitOptions& limit);

// The job's time limit in a plan that is shown, and what is done before it and after it.

void show_time_limit(TextTable& table, const allocation::Allocation& allocation,
                     const options::TimeLimitOptions& limit, const facts::Snapshot& snapshot);
// Returns null if the job has no limit and no option is about it.
nlohmann::ordered_json time_limit_json(const allocation::Allocation& allocation,
                                       const options::TimeLimitOptions& limit,
                                       const facts::Snapshot& snapshot);

}  // namespace ddprun::render
