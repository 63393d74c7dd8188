// A place: a service that starts one ddprun on each node and says by variables or a file which node this is.
// Schedulers and MPI launchers are asked first. The functions find the place that started this process, and
// the launch that follows from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/manual.hpp"
#include "allocation/variables.hpp"
#include "base/sourced.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// Input of a row.
struct PlaceView {
  const facts::Snapshot& snapshot;
  const PlaceOptions& options;  // the flags: they count for more
  Variables variables;
};

// Facts from a place; each value with the variable or file it came from.
struct FoundPlace {
  Sourced<std::string> name;  // "SkyPilot"
  Sourced<int> nodes;
  Sourced<int> rank;  // rank of this node, from 0
  // Name or numeric address of node 0. nullopt on a node 0 that the place does not tell its own.
  std::optional<Sourced<std::string>> address;
  std::optional<Sourced<int>> port;                        // the place's, on node 0
  std::optional<Sourced<std::vector<std::string>>> hosts;  // in the order of ranks, as many as `nodes`
  std::optional<Sourced<int>> workers;                     // workers of a node, 1 or more
  std::optional<Sourced<std::string>> job;                 // the same on all nodes
  std::optional<Sourced<int>> restart_count;
  std::vector<Notice> notices;
};

// Returns the most specific place; nullopt if no place shows, or this process is a worker of another
// launcher. Throws Error for a place that contradicts itself or says too little, naming the variable.
std::optional<FoundPlace> find_place(const facts::Snapshot& snapshot, const PlaceOptions& options);

// Returns the launch of the place, with one agent a node, as parse_manual makes it of flags; alone if the
// place has one node. Flags count for more than the place. Throws UsageError if --nnodes contradicts it.
Allocation follow_place(const FoundPlace& place, const facts::Snapshot& snapshot,
                        const PlaceOptions& options);

// Returns a notice if variables of several nodes are set but not followed, since this process is a worker of
// another launcher or node 0 is "localhost"; nullopt if none is set.
std::optional<Notice> find_unfollowed_place(const facts::Snapshot& snapshot, const PlaceOptions& options);

// Variables that a place or the hook of a container sets for every process: not the user's choice.

// Returns who set OMP_NUM_THREADS=1: "SkyPilot" (Ray's num_cpus), "the container's hook" (enroot,
// conf/hooks/extra/50-slurm-pytorch.sh); nullopt if the value may be the user's.
std::optional<std::string> find_threads_preset(const facts::Environment& environment);

// Reports whether MASTER_PORT is that hook's: 61000 + job id % 4536, the same for all steps of a job.
bool is_port_of_hook(const facts::Environment& environment);

}  // namespace ddprun::allocation
