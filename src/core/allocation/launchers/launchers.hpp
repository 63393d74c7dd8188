// Variables of MPI launchers and other starters of processes: a table, one file a launcher.
// A launcher's rank beats the scheduler's where they disagree: mpiexec inside a batch job leaves the numbers
// of the script or of the launcher's own daemon in SLURM_PROCID and PBS_NODENUM.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// Values of one launcher about this process. Unknown ones are absent; each origin is the variable.
struct LaunchPlace {
  std::string launcher;    // "Open MPI"
  std::string one_a_node;  // command for one process on each of {} hosts: "mpiexec -n {0} -ppn 1"
  Sourced<int> rank;
  std::optional<Sourced<int>> size;  // 1 or more
  std::optional<Sourced<int>> local_rank;
  std::optional<Sourced<int>> local_size;
  std::optional<Sourced<int>> node;         // position of this host among those of the launch
  std::optional<Sourced<int>> nodes;        // no more hosts than these take part
  bool nodes_exact = false;                 // all of them take part
  Sourced<std::vector<std::string>> hosts;  // hosts of the launch, in node order; no origin: not known here
  bool launcher_tells_hosts = false;        // all but the processes beside the launcher know `hosts`
  std::vector<Sourced<std::string>>
      front_end;            // names or addresses of the host where the launcher was called
  Sourced<std::string> id;  // all processes of this launch have it and no other launch does
  std::string slurm_step;   // "29.0" when srun's own PMI plug-in set the variables; else empty
  std::vector<JobSecret> secrets;
  KeyValueSpace key_value_space = KeyValueSpace::none;
};

// Returns every launcher whose rank is set, the most specific first. Throws Error for a malformed variable
// and for a launch that needs what no variable says.
std::vector<LaunchPlace> find_launch_places(const facts::Snapshot& snapshot);

// Throws Error when only shells are between this process and the scheduler's daemon or a user's terminal:
// then no launcher started it, and the place is another launch's.
void check_not_left_over(const LaunchPlace& place, const facts::HostFacts& host);

// Throws Error when HPE MPT, hydra, Open MPI or PRRTE started this process and no launcher's rank is set: it
// would be one of several worlds of one.
void check_rank_not_lost(const facts::Snapshot& snapshot);

// Reports whether only shells are between this process and the daemon of Slurm or PBS that runs a job's
// scripts and tasks: then no launcher of MPI processes started it.
bool is_started_by_scheduler(const facts::HostFacts& host);

// Reports whether the daemon that runs a job's scripts is above this process; nullopt if a user's terminal
// is, or if not all of its ancestors are seen.
std::optional<bool> is_below_script(const facts::HostFacts& host);

// Reports whether it is a shell that a person types at, "-bash" or "zsh -i": no script and no -c.
bool is_interactive_shell(const facts::Ancestor& ancestor);

// Reports whether a process of one of these programs is among the ancestors.
bool has_ancestor(const facts::HostFacts& host, const std::vector<std::string>& programs);

// Reports the same, and that no daemon of a launcher or scheduler is between.
bool is_run_by(const facts::HostFacts& host, std::string_view program);

// Returns "OMPI_COMM_WORLD_RANK=2 (of 4)".
std::string describe(const LaunchPlace& place);

}  // namespace ddprun::allocation
