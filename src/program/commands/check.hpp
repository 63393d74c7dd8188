// --check: the job is a check of its nodes; and the checks before the first attempt.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "plan/node_proposal.hpp"
#include "probes/own_check.hpp"

namespace ddprun::commands {

// --check: the job is a check of its nodes.
// Each node's agent starts ddprun itself as the worker, with k_check_node; these meet in the workers' store,
// and rank 0 prints what is wrong.

// Words on the command line of a worker of --check.

inline constexpr const char* k_check_node =
    "--check-node";  // the worker's first argument; its second is text

struct CheckWords {
  bool json = false;
  bool strict = false;
  bool deep = false;
  std::string log_folder;
  std::string exclude_file;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckWords, json, strict, deep, log_folder, exclude_file)

// Turns the options of the training into those of a check's own workers, if a check is wanted.
void make_check_job(options::Options& options);

// Reports whether this process is such a worker.
bool is_check_node(const facts::Snapshot& snapshot);
// Runs it. Returns the exit code, on rank 0 whether a job would fail. Throws Error.
int check_node(const facts::Snapshot& snapshot);

// Checks before the first attempt.
// They are --check=auto, the part of a node's check that takes no time, in a job of several nodes; and the
// paths of --stage.

// Says what is wrong with this node; warnings on the first one only, as all nodes would say the same. Where
// the job has nodes to spare, an error is thrown instead: the job starts without this node, whose name goes
// to the end of --exclude-file. Returns what it has seen, for later looks.
probes::StartLook check_before_start(const plan::NodeProposal& node, const facts::Snapshot& snapshot);

// Checks the paths on the host that reads them. Throws Error for a path of --stage that is not there.
void check_staged(const plan::NodeProposal& node, const facts::Snapshot& snapshot);

}  // namespace ddprun::commands
