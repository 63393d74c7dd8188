// The environment of one worker: torchrun's names and spellings, from one global attempt number.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "facts/snapshot.hpp"
#include "plan/finalise.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::plan {

// Effects of Open MPI's mpirun on one ddprun per node, as mpirun expects one MPI process per core.

// Returns a notice if mpirun has bound the agent: up to two processes are bound to a core each unless
// --bind-to says otherwise (mpirun(1)), and with one ddprun a node all its workers have that core.
std::optional<allocation::Notice> find_bound_agent(const NodeProposal& node, const facts::Snapshot& snapshot);

// Returns a notice if mpirun kills early: a stop signal to it reaches every process, and
// odls_base_sigkill_timeout later, a second by default, all are killed: less than `grace`, which workers were
// promised.
std::optional<allocation::Notice> find_early_kill(const facts::Snapshot& snapshot, Milliseconds grace);

// Values that are known only when the worker is about to start.
struct WorkerContext {
  std::size_t worker = 0;       // index into the assignment's workers
  std::string error_file;       // file in which the worker may leave {"message": ...}
  std::string agent_id;         // marks every process that this agent starts, for the reaper
  std::string interface;        // the network interface that was proven between hosts; empty: one host
  std::string timer_file{};     // file of torch's watchdog; empty: not asked for
  std::string progress_file{};  // file that the worker may touch
  // Folder and prefix of the module that shows where the worker is (workers/inspection); empty: it gets none.
  std::string inspection_folder{};
  std::string inspect_prefix{};
  std::string flight_record{};  // beginning of a file's path in the logs' folder; empty: there is none
  std::string ras_address{};    // address of this host's NCCL processes, "127.0.0.1:41234"; empty: their own
  int columns = 0;  // width of the terminal that shows its output; 0: none does, or it has it itself
  std::string local_store{};  // the relay of the host, "127.0.0.1:41235"; empty: it reaches the store itself
};

// Reports whether torch loads ddprun's module in such a worker: a Python that takes PYTHONPATH, without
// --no-inspect.
bool is_inspected(const options::Options& options, const std::vector<std::string>& command,
                  const facts::Environment& environment);

// Removes launcher leftovers if one agent starts several workers: they would all carry the agent's own rank,
// and frameworks look at them before RANK; and if ddprun used a key-value space of the launcher that serves
// no second program.
std::vector<VariableChange> scrub_changes(const facts::Environment& environment,
                                          const allocation::Allocation& allocation, int workers,
                                          bool key_value_space_used = false);

// Reports whether the worker of rank 0 hosts the workers' store. In a world of one the variables are left
// alone, so that a script that starts processes of its own on an address of its own is not disturbed.
bool worker_hosts_store(const options::Options& options, int world_size);

// Returns the differences of one worker's environment from the agent's.
std::vector<VariableChange> make_worker_changes(const LaunchPlan& plan, const facts::Environment& environment,
                                                const WorkerContext& context);

// Returns the names that a container is to have: those set by `changes`, and what enters_container says of
// ddprun's own environment.
std::vector<std::string> carried_names(const std::vector<VariableChange>& changes,
                                       const facts::Environment& environment);

// Returns the planned command; with -e NAME for the variables above if --container needs that.
std::vector<std::string> command_to_start(const LaunchPlan& plan, std::size_t worker,
                                          const std::vector<VariableChange>& changes,
                                          const facts::Environment& environment);

// Reports whether the workers' NCCL should answer as RAS on a port of the job's: NVIDIA's GPUs, without
// --no-inspect.
bool asks_nccl_ras(const NodeProposal& node);

facts::Environment apply_changes(facts::Environment environment, const std::vector<VariableChange>& changes);

// Makes "NAME=value" strings as exec wants them.
std::vector<std::string> make_environment_strings(const facts::Environment& environment);

}  // namespace ddprun::plan
