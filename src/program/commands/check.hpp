// --check: the job is a check of its nodes.
// Each node's agent starts ddprun itself as the worker, with k_check_node; these meet in the workers' store,
// and rank 0 prints what is wrong.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "facts/snapshot.hpp"
#include "options/options.hpp"

namespace ddprun::commands {

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

}  // namespace ddprun::commands
