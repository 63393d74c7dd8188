// Plan of an attempt, made from a proposal and its share of the world, also from the share that is expected.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "facts/binding.hpp"
#include "facts/snapshot.hpp"
#include "plan/node_proposal.hpp"
#include "plan/world_plan.hpp"
#include "staging/rewrite.hpp"

namespace ddprun::plan {

// Plan of one attempt on this host: its proposal, its share of the world, and what follows from the two.
// Complete, printable and never changed afterwards: --dry-run, the real run and the tests use this object.

// Devices that a worker sees, and the number of its own among them: one follows from the other.
struct DeviceView {
  bool virtual_rank = false;  // LOCAL_RANK is 0
  std::string entries;        // value of NodeProposal::device_variable; empty: unchanged
  std::string origin;
};

struct PlannedWorker {
  GlobalRank rank;
  LocalRank local_rank;
  std::vector<std::string> command;  // these three as offered
  std::string device;
  std::vector<int> gpus{};
  DeviceView view{};
  facts::Binding binding{};
  std::string network_card{};  // --nic auto: "mlx5_2", "cxi0"; empty: none near, or not asked for
  std::string omp_places{};    // --omp-places: "{0,64},{1,65}"; empty: not bound, or not asked for
};

// Binding of this host's workers; each worker has its own binding.
struct BindingPlan {
  std::string origin;      // for the user: "--bind none", "cores near each GPU"
  std::vector<int> spare;  // CPUs of this host that none of its workers holds: ddprun itself keeps to them
};

// Place where this host's workers find their checkpoints (--checkpoint-memory).
struct CheckpointPlace {
  std::string folder;  // empty: none are kept
  std::string socket;
  std::optional<std::int64_t> step;  // the one that they start from; nullopt: none
};

struct LaunchPlan {
  // Proposal as one task of several, if the others were found to be tasks and this agent had assumed
  // otherwise.
  std::shared_ptr<const NodeProposal> node;
  Assignment assignment;
  std::vector<PlannedWorker> planned;  // in the order of the assignment's workers
  BindingPlan binding;
  Sourced<int> threads;  // OMP_NUM_THREADS for each worker; 0: the user set it, left alone
  // --stage: where each path is on this host, as far as it is known.
  std::vector<staging::Mapping> staged{};
  CheckpointPlace checkpoints{};            // same
  std::vector<allocation::Notice> notices;  // notices about the share; the node has its own
};

// Returns the node's notices, then those of its share.
std::vector<allocation::Notice> notices_of(const LaunchPlan& plan);

// A worker's place and environment as far as they are known before the agents have met: what --dry-run shows.

// Returns this agent's share as it follows from its proposal alone; address empty and port 0 if the
// rendezvous decides.
Assignment make_expected_assignment(const NodeProposal& node);

struct ExpectedVariable {
  VariableChange change;  // without a value where it is removed or open
  std::string open;       // "(a free port of n1)": what the start will put there; empty: decided
};

// Returns the changes of the real run for one of the workers of a plan that was made of the expected
// assignment.
std::vector<ExpectedVariable> expected_variables(const LaunchPlan& plan,
                                                 const facts::Environment& environment, std::size_t worker);

// Makes the plan of an attempt. `snapshot` is the one of the proposal. Throws Error if the assignment is for
// another number of workers than was offered, UsageError if the workers cannot be bound as was asked.
LaunchPlan finalise(std::shared_ptr<const NodeProposal> node, Assignment assignment,
                    const facts::Snapshot& snapshot);

// Destinations of the output of this host's workers, in words.

struct OutputWay {
  std::string file;  // empty: none
  bool console = true;
  bool gathered = false;   // the console is the coordinator's
  std::string label;       // in front of each line on the console
  bool by_worker = false;  // the worker writes the file itself
};

OutputWay output_way(const LaunchPlan& plan, std::size_t worker, output::Stream stream);
// Reports whether the options direct any output.
bool directs_output(const output::OutputOptions& options);
std::string describe(const OutputWay& way);
// --ranks or --local-ranks-filter that choose none of the ranks there are, so that nothing is shown.
std::optional<allocation::Notice> find_unseen_output(const LaunchPlan& plan);

}  // namespace ddprun::plan
