// Consequences of the workers' bindings: threads, places of OpenMP, nearest network cards.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "plan/launch_plan.hpp"

namespace ddprun::plan {

// Fills LaunchPlan::threads and each worker's network_card and omp_places from the bindings.
void follow_binding(LaunchPlan& plan, const facts::Snapshot& snapshot);

// Returns a notice for --nic without a card to name.
std::optional<allocation::Notice> find_many_threads(const LaunchPlan& plan, const facts::Snapshot& snapshot);
std::optional<allocation::Notice> find_no_card(const LaunchPlan& plan, const facts::Snapshot& snapshot);

// Renders one place a core, "{0,64},{1,65}": the hardware threads of each that are among `cpus` (ascending).
// Without a topology every CPU is a place.
std::string render_omp_places(const std::vector<int>& cpus, const std::optional<facts::Topology>& topology);

}  // namespace ddprun::plan
