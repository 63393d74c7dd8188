// Turns the command line of a job of several programs into its launch.
// In that each node has one worker: ddprun itself, which starts the programs of that node (program_node.hpp).
#pragma once

#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "command_line/lower_places.hpp"
#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "programs/program.hpp"

namespace ddprun::program_nodes {

// Replaces --job FILE among the arguments by what the file says: its options, and the programs with their
// own. Throws UsageError with the file and the line.
void read_job_file(facts::Snapshot& snapshot);

// Returns the programs of these command lines, of which the first has been read already: what stands before
// its program counts for all, but for what is its own (name, nodes, workers, how it is started). Empty: there
// is only one. Throws UsageError that names the program.
std::vector<programs::Program> read_programs(const std::vector<std::vector<std::string>>& pieces,
                                             const options::Options& first,
                                             const facts::Environment& environment,
                                             const command_line::OptionLayers& layers);

// Throws UsageError for an option that has a meaning only among several programs.
void refuse_alone(const options::Options& options);

// Turns the options of the first program into those of the launch.
void make_programs_launch(options::Options& options, const std::vector<programs::Program>& programs);
// Throws UsageError where the launcher has started one ddprun a worker.
void refuse_tasks(const allocation::Allocation& allocation);

// --dry-run: prints the nodes of each program, and its plan on the first of them. Returns the exit code.
int print_programs(const std::vector<programs::Program>& programs, const options::Options& options,
                   const allocation::Allocation& allocation, const facts::Snapshot& snapshot);

}  // namespace ddprun::program_nodes
