// Expected number of hosts of an MPI launcher's agents; the real one is known only when all have met.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/place_options.hpp"
#include "facts/snapshot.hpp"
#include "plan/world_plan.hpp"

namespace ddprun::plan {

struct ExpectedNodes {
  std::optional<Sourced<int>> asked;  // --nnodes
  Sourced<int> of_job;                // hosts of the whole job; 0 when unknown
  std::string launcher;               // "hydra"
  std::string one_a_node;             // "mpiexec -n {0} -ppn 1"
};

// Returns the expectation of this agent; nullopt if the launcher did not choose the hosts.
std::optional<ExpectedNodes> expect_nodes(const allocation::Allocation& allocation,
                                          const allocation::PlaceOptions& options,
                                          const facts::Snapshot& snapshot);

// Throws Error, with a hint, where --nnodes asked for another number of hosts; a notice where the job has
// more and fewer were not asked for.
std::optional<allocation::Notice> check_node_count(const std::vector<Announcement>& announcements,
                                                   const WorldPlan& world, const ExpectedNodes& expected);

}  // namespace ddprun::plan
