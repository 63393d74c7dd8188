// The hosts that a job was granted, and the part of them that this process is. Every field knows its origin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/sourced.hpp"
#include "facts/schedulers.hpp"

namespace ddprun::allocation {

// Number of ddprun processes, and what each one stands for.
enum class LaunchStyle {
  alone,           // this process is the whole job, on this host
  agent_per_node,  // one ddprun a host; each starts the host's workers
  agent_per_task,  // the scheduler started one ddprun a worker; ranks are the scheduler's
  not_started,     // inside an allocation of several hosts, but no step has been started on them
};

// A value that every process of this job or launch was given and no other process knows: a key. Never
// printed.
enum class SecretKind { front_end, given, pmi_shared_secret, open_mpi_transports, pbs_cookie };
struct JobSecret {
  SecretKind kind = SecretKind::front_end;
  std::string value;
  std::string origin;  // the variable
  friend bool operator==(const JobSecret&, const JobSecret&) = default;
};

// The launcher's own key-value space, where its variables show one.
enum class KeyValueSpace { none, pmi1, pmix };

struct Host {
  std::string name;  // name as the scheduler spells it; empty if no source shows it
  int tasks = 1;     // ddprun processes on this host in this step (1 in agent_per_node); 0: not known
  friend bool operator==(const Host&, const Host&) = default;
};

// A remark for the user that does not stop the launch: one sentence and what to do about it.
struct Notice {
  std::string what;
  std::string hint;
  friend bool operator==(const Notice&, const Notice&) = default;
};

struct Allocation {
  Sourced<facts::Scheduler> scheduler;
  Sourced<LaunchStyle> style;
  // agent_per_node follows from one process on this host alone: should another host have several, all of them
  // stand for one worker each. The coordinator finds out.
  bool style_assumed = false;
  Sourced<std::string> launcher;  // "srun", "hydra", "Open MPI", "PALS", ...; empty: none
  // The launcher's own name for this launch: all its processes see it and no other launch has it.
  Sourced<std::string> launch_id;
  Sourced<std::string> job_id;       // "29"; empty when there is no job
  Sourced<std::string> step_id;      // "0"; empty outside a step
  Sourced<std::string> instance;     // tells launches of one job and step apart: --rdzv-id, or the host and
                                     // process of a launch that is alone; may be empty
  Sourced<int> restart_count;        // number of times that the scheduler requeued the job
  Sourced<std::vector<Host>> hosts;  // hosts of this launch (the step's, not the job's), scheduler's order
  Sourced<int> job_nodes;            // hosts of the whole job; 0 when unknown
  Sourced<int> components{1, {}};    // components of a heterogeneous job; 1 in any other
  // Position of this process' host in `hosts`; nullopt if no variable shows it: nodes are then ordered by
  // their lowest rank, which shows at the rendezvous.
  Sourced<std::optional<NodeIndex>> node_index;
  // Place of its host among the nodes in the order of ranks, if that is another one: Slurm's arbitrary
  // distribution (SLURM_HOSTFILE, srun -m arbitrary -w). Unset for agent_per_task: ranks are the scheduler's.
  std::optional<Sourced<NodeIndex>> node_rank;
  Sourced<int> task_count;        // ddprun processes in this launch
  Sourced<int> task_rank;         // this process among them, the scheduler's number (PROCID)
  Sourced<LocalRank> task_local;  // this process among those on its host
  Sourced<int> tasks_here;        // ddprun processes on this host; 0: as `hosts` says
  // Agents are numbered by task_rank: an MPI launcher's layout on the hosts is not known.
  bool numbered_by_launcher = false;
  // True by hand without --node-rank: the host of first_address coordinates, the others are numbered as they
  // come.
  bool numbered_by_arrival = false;
  // The service that started one ddprun a node by variables of its own: "SkyPilot"; empty: none did.
  Sourced<std::string> place;
  std::optional<Sourced<int>> place_workers;  // number of workers it wants on each node
  // Tasks that the job's script asked for on each of its hosts, one worker each where no GPU is visible.
  std::optional<Sourced<std::vector<Host>>> asked_tasks{};
  Sourced<int> cpus_on_node;                      // CPUs the scheduler granted on this host; 0 when unknown
  std::optional<Sourced<std::int64_t>> end_time;  // unix seconds
  std::optional<Sourced<std::vector<int>>> reserved_ports;  // ascending
  std::optional<Sourced<std::string>>
      first_address;                       // host or address of the coordinator if the user gave it
  std::optional<Sourced<int>> first_port;  // port of the coordinator if the user gave it
  // Hosts or numeric addresses where the coordinator may be, beside the first of `hosts`; best first.
  std::vector<Sourced<std::string>> first_hints;
  // Every process of the launch, not only this one, was told hosts among which the coordinator's is.
  bool first_known = true;
  std::vector<JobSecret> secrets;  // best first
  KeyValueSpace key_value_space = KeyValueSpace::none;
  std::vector<Notice> notices;
  friend bool operator==(const Allocation&, const Allocation&) = default;
};

// Returns the place of this process' host in the order of ranks; nullopt if no variable tells.
Sourced<std::optional<NodeIndex>> node_rank_of(const Allocation& allocation);

// Returns this process' host among `hosts`; nullptr if it is not known.
const Host* find_own_host(const Allocation& allocation);

std::string to_string(facts::Scheduler scheduler);  // "none", "manual", "slurm"
std::string to_string(LaunchStyle style);           // "alone", "one ddprun per node", ...

// Returns the key that every process of this launch shares and no other launch has: "slurm/29/0/0" (job,
// restart count, step, then the --rdzv-id if there is one), "slurm/29/0/-/n1.1829" (alone in a batch script),
// "manual/<rdzv id>", "skypilot/<job>", "alone/<host>.<process>". Under an MPI launcher the job is left out
// if the launcher has a name for the launch ("open-mpi/483524609"): over ssh only its first host may know the
// job. Port sequences and handshakes are keyed by it.
std::string launch_key(const Allocation& allocation);
// Returns what stays the same when the scheduler runs the job again, for its steps apart; that of the launch
// where there is no job.
std::string job_key(const Allocation& allocation);

}  // namespace ddprun::allocation
