// Runs the programs of one node in a job of several.
// It is a worker of the launch, starts a ddprun for each program that has this node, and does what the first
// node decides.
//
// The nodes meet in the store of the launch. Each tells there, numbered from 1, what has happened to its
// programs; the first node reads all of it, in order, and answers in the same way with orders, which all
// nodes read.
#pragma once

#include <string>

#include "facts/snapshot.hpp"

namespace ddprun::program_nodes {

inline constexpr const char* k_program_node =
    "--program-node";  // first argument; its second is the programs as JSON

// Reports whether this process is such a worker.
bool is_program_node(const facts::Snapshot& snapshot);
// Runs it. Returns the exit code of the job.
int run_program_node(facts::Snapshot& snapshot);

}  // namespace ddprun::program_nodes
