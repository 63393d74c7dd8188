// The environment of one worker: torchrun's names and spellings, from one global attempt number.
#pragma once

#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "plan/launch_plan.hpp"

namespace ddprun::plan {

// What is known only when the worker is about to start.
struct WorkerContext {
  std::size_t worker = 0;       // index into the assignment's workers
  std::string error_file;       // where the worker may leave {"message": ...}
  std::string agent_id;         // marks every process that this agent starts, for the reaper
  std::string interface;        // the network interface that was proven between hosts; empty: one host
  std::string timer_file{};     // of torch's watchdog; empty: not asked for
  std::string progress_file{};  // which the worker may touch
  // Of the module that shows where the worker is (workers/inspection); empty: it gets none.
  std::string inspection_folder{};
  std::string inspect_prefix{};
  std::string flight_record{};  // beginning of a file's path in the logs' folder; empty: there is none
  std::string ras_address{};  // where NCCL's processes of this host answer, "127.0.0.1:41234"; empty: its own
  int columns = 0;  // of the terminal that shows its output; 0: none does, or it has the terminal itself
  std::string local_store{};  // the relay of the host, "127.0.0.1:41235"; empty: it reaches the store itself
};

// Whether torch loads ddprun's module in such a worker: a Python that takes PYTHONPATH, without --no-inspect.
bool is_inspected(const options::Options& options, const std::vector<std::string>& command,
                  const facts::Environment& environment);

// Launcher leftovers to remove where one agent starts several workers: they would all carry the agent's own
// rank, and frameworks look at them before RANK; and where ddprun used a key-value space of the launcher that
// serves no second program.
std::vector<VariableChange> scrub_changes(const facts::Environment& environment,
                                          const allocation::Allocation& allocation, int workers,
                                          bool key_value_space_used = false);

// Whether the workers' store is hosted by the worker of rank 0. A world of one is left to itself, so that a
// script that starts processes of its own on an address of its own finds nobody else's rules.
bool worker_hosts_store(const options::Options& options, int world_size);

// What differs from the agent's environment for one worker.
std::vector<VariableChange> make_worker_changes(const LaunchPlan& plan, const facts::Environment& environment,
                                                const WorkerContext& context);

// The names that a container is to have: those set by `changes`, and what enters_container says of ddprun's
// own environment.
std::vector<std::string> carried_names(const std::vector<VariableChange>& changes,
                                       const facts::Environment& environment);

// The planned command; with -e NAME for the variables above where --container needs that.
std::vector<std::string> command_to_start(const LaunchPlan& plan, std::size_t worker,
                                          const std::vector<VariableChange>& changes,
                                          const facts::Environment& environment);

// Whether the workers' NCCL is to answer as RAS on a port of the job's: NVIDIA's GPUs, without --no-inspect.
bool asks_nccl_ras(const NodeProposal& node);

facts::Environment apply_changes(facts::Environment environment, const std::vector<VariableChange>& changes);

// "NAME=value" strings as exec wants them.
std::vector<std::string> make_environment_strings(const facts::Environment& environment);

}  // namespace ddprun::plan
